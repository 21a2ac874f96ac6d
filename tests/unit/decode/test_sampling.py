from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.decode.config import SamplingConfig
from seqloom.decode.options import DecodedSequence
from seqloom.decode.sampling import (
    keep_min_p,
    keep_top_k,
    keep_top_p,
    keep_typical,
    sample,
    truncated,
    uniforms,
)
from seqloom.errors import SeqloomError
from seqloom.types import BOS, EOS, PAD, UNK, Step, Tree
from support.step_models import TableModel

A, B, V = 4, 5, 6
HALVES = {A: 0.5, EOS: 0.5}


class Counting(TableModel):
    """StepModel with the same distribution everywhere, which records the number of rows of each step."""

    def __init__(self, probs: dict[int, float]) -> None:
        values = {token: math.log(p) for token, p in probs.items()}
        super().__init__(TableModel.of(dict.fromkeys(range(V), values), V, rest=-math.inf).log_probs)
        self.rows: list[tuple[int, int]] = []
        self.fed: list[list[int]] = []

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        assert len(state) == len(last) and len(last) % len(memory) == 0
        self.rows.append((len(memory), len(last)))
        self.fed.append(last.tolist())
        return super().step(memory, state, last)


def _sample(
    model: Any, longest: list[int], prefixes: list[list[int]] | None = None, **options: Any
) -> list[list[DecodedSequence]]:
    batch = collate_ids([[UNK + i] for i in range(len(longest))], None, range(len(longest)))
    return sample(model, batch, options=SamplingConfig(**options), max_lengths=longest, prefixes=prefixes)


def test_each_sentence_has_the_requested_number_of_samples() -> None:
    found = _sample(Counting(HALVES), [4, 1], samples=30)
    assert [len(samples) for samples in found] == [30, 30]
    for samples, longest in zip(found, (4, 1), strict=True):
        assert {one.finished for one in samples} == {True, False}
        for one in samples:
            assert one.tokens == [A] * len(one.tokens)
            assert len(one.tokens) + one.finished <= longest
            assert one.finished or len(one.tokens) == longest
            assert one.log_probs == pytest.approx([math.log(0.5)] * (len(one.tokens) + one.finished))
            assert one.score == pytest.approx(sum(one.log_probs))
            assert one.attention is None


def test_log_probabilities_are_those_before_temperature_and_filters() -> None:
    model = Counting({A: 0.6, B: 0.3, EOS: 0.1})
    ((one,),) = _sample(model, [3], temperature=0.5, top_k=1)
    assert one.tokens == [A] * 3
    assert one.log_probs == pytest.approx([math.log(0.6)] * 3)


def test_padding_and_the_start_are_never_drawn() -> None:
    (found,) = _sample(Counting({PAD: 0.5, BOS: 0.4, A: 0.05, EOS: 0.05}), [6], samples=50)
    assert {token for one in found for token in one.tokens} == {A}


def test_samples_depend_on_the_seed() -> None:
    model = Counting({A: 0.45, B: 0.45, EOS: 0.1})
    one, same, other = (_sample(model, [9], samples=20, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert [found.tokens for found in one[0]] != [found.tokens for found in other[0]]
    assert len({tuple(found.tokens) for found in one[0]}) > 10  # and samples differ from each other


def test_equal_sentences_get_equal_samples_unless_their_keys_differ() -> None:
    model, batch = Counting({A: 0.45, B: 0.45, EOS: 0.1}), collate_ids([[7, 8], [7, 8], [8]], None, range(3))
    options, longest = SamplingConfig(samples=8), [9] * 3
    first, second, third = sample(model, batch, options=options, max_lengths=longest)
    assert first == second != third
    first, second, third = sample(model, batch, options=options, max_lengths=longest, keys=[1, 2, 1])
    assert first == third != second


def test_a_larger_maximum_length_does_not_change_earlier_tokens() -> None:
    model = Counting({A: 0.5, B: 0.45, EOS: 0.05})
    short, long = (_sample(model, [longest], samples=9)[0] for longest in (3, 12))
    assert [one.tokens for one in short] == [one.tokens[:3] for one in long]


def test_samples_begin_with_prefixes_of_any_length() -> None:
    prefixes = [[B, B, A], [B], []]
    found = _sample(Counting({A: 0.7, EOS: 0.2, B: 0.1}), [5, 5, 5], prefixes, samples=10)
    for prefix, samples in zip(prefixes, found, strict=True):
        for one in samples:
            assert one.tokens[: len(prefix)] == prefix
            given = [math.log({A: 0.7, B: 0.1}[token]) for token in prefix]
            assert one.log_probs[: len(prefix)] == pytest.approx(
                given
            )  # of each sentence's own prefix, for all samples
            assert len(one.tokens) <= 5
            assert one.score == pytest.approx(sum(one.log_probs))
    assert len({len(one.tokens) for one in found[1]}) > 1


def test_the_shared_prefix_length_is_read_once_for_all_samples() -> None:
    model = Counting(HALVES)
    _sample(model, [9, 9], [[A, A, A], [A, B]], samples=4)
    assert model.rows[:3] == [(2, 2), (2, 2), (2, 8)]
    assert model.fed[:4] == [[BOS] * 2, [A] * 2, [A] * 4 + [B] * 4, [A] * 4 + model.fed[3][4:]]


def test_finished_rows_are_dropped() -> None:
    model = Counting(HALVES)
    found = _sample(model, [40, 40], samples=50)
    lengths = [[len(one.tokens) + 1 for one in samples] for samples in found]
    for position, (sentences, rows) in enumerate(model.rows):
        still = [sum(n > position for n in each) for each in lengths]
        assert sentences == sum(n > 0 for n in still)
        assert rows == sentences * max(still)
    assert len(model.rows) == max(map(max, lengths))


def test_tokens_that_tie_at_the_threshold_are_all_kept() -> None:
    weights = torch.tensor([[0.1, 0.3, 0.3, 0.3]]).log()
    for left in (
        keep_top_k(weights, 2),
        keep_top_p(weights, 0.5),
        keep_min_p(weights, 1),
        keep_typical(weights, 0.1),
    ):
        assert left.isfinite().tolist() == [[False, True, True, True]]


def test_filters_do_not_change_their_input() -> None:
    log_probs = torch.randn(3, 9).log_softmax(-1)
    before = log_probs.clone()
    truncated(log_probs, SamplingConfig(temperature=0.5, top_k=3, top_p=0.5, min_p=0.1, typical=0.5))
    assert torch.equal(log_probs, before)


def test_random_numbers_are_reproducible() -> None:
    """Literal values, because every later version must reproduce the samples."""
    assert uniforms(1, 2, 3, 4).tolist() == uniforms(1, 2, 3, 9).tolist()[:4]
    assert uniforms(1, 2, 3, 2).tolist() == [0.15499955367122553, 0.014447058181138228]
    ways = [(1, 2, 3), (2, 1, 3), (1, 3, 2), (12, 3, 0), (1, 23, 0)]
    assert len({uniforms(*way, 1).item() for way in ways}) == len(ways)
    many = torch.cat([uniforms(0, key, number, 5) for key in range(20) for number in range(20)])
    assert ((many >= 0) & (many < 1)).all()
    assert many.mean().item() == pytest.approx(0.5, abs=0.03)


def test_no_sentences_give_no_samples() -> None:
    assert _sample(Counting(HALVES), [], samples=3) == []


@pytest.mark.parametrize(
    "values, message",
    [
        ({"temperature": -1}, r"sampling\.temperature .*greater than or equal to 0, got -1"),
        ({"temperature": math.inf}, r"sampling\.temperature .*finite"),
        ({"top_k": -3}, r"sampling\.top_k .*got -3"),
        ({"top_p": 0}, r"sampling\.top_p .*greater than 0, got 0"),
        ({"top_p": 1.5}, r"sampling\.top_p .*less than or equal to 1, got 1\.5"),
        ({"min_p": 1.1}, r"sampling\.min_p .*got 1\.1"),
        ({"typical": 0}, r"sampling\.typical .*got 0"),
        ({"samples": 0}, r"sampling\.samples .*got 0"),
        ({"seed": -1}, r"sampling\.seed .*got -1"),
        ({"topk": 5}, r"no option sampling\.topk"),
        (
            {"temperature": 0, "samples": 4},
            r"samples=4 with sampling\.temperature=0",
        ),
    ],
    ids=str,
)
def test_an_impossible_option_is_an_error(values: dict[str, float], message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        SamplingConfig.checked(values, "sampling")


def test_a_prefix_of_maximum_length_is_an_error() -> None:
    with pytest.raises(SeqloomError, match=r"prefix of sentence 2 has 3 tokens, .* maximum length is 3"):
        _sample(Counting(HALVES), [4, 3], [[A, A, A], [A, A, A]])


@pytest.mark.parametrize("symbol", [PAD, BOS, EOS])
def test_a_prefix_with_a_special_symbol_is_an_error(symbol: int) -> None:
    with pytest.raises(SeqloomError, match=f"prefix of sentence 1 contains the id {symbol}"):
        _sample(Counting(HALVES), [4], [[A, symbol]])


@pytest.mark.parametrize("broken", [-torch.inf, torch.nan], ids=["impossible", "not a number"])
def test_a_sample_without_a_possible_token_is_left_out(broken: float) -> None:
    model = Counting(HALVES)
    model.log_probs.fill_(broken)
    assert _sample(model, [4], [[A]], top_p=0.9) == [[]]
