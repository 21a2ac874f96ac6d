"""Beam search against brute force: every sequence is enumerated, scored and ranked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking
from seqloom.types import BOS, EOS, Batch, Step, Tree
from support.step_models import FITTED, FITTED_VOCABULARY, NEURAL, STEP_MODELS, batch_for, step_model, tolerance

V, LONGEST = 6, 4
SYMBOLS = range(EOS + 1, V)  # the tokens of an output
EVERYTHING = len(SYMBOLS) ** LONGEST  # a beam of this size prunes nothing


class RandomTree:
    """StepModel with a random distribution for each prefix, so that swapped rows are noticed.

    The source's first id chooses the sentence; the state is the number of the prefix, and nothing is learned,
    rounded or shared, so that batching cannot change a single bit.
    """

    def __init__(self, sentences: int, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        shape = (sentences, V**LONGEST, V)
        self.table = (2 * torch.randn(shape, generator=random, dtype=torch.float64)).log_softmax(-1)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return batch.source[:, 0], torch.zeros(len(batch.source), dtype=torch.long)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        prefix = torch.where(last == BOS, state, state * V + last)
        sentence = memory.repeat_interleave(len(last) // len(memory))
        origin = (sentence.double() + 100 * prefix).view(-1, 1, 1, 1).expand(-1, 1, 1, 2)  # identifies the row
        return Step(self.table[sentence, prefix], prefix, origin)

    def log_probs(self, sentence: int, tokens: Sequence[int]) -> list[float]:
        prefix, found = 0, []
        for token in tokens:
            found.append(self.table[sentence, prefix, token].item())
            prefix = prefix * V + token
        return found


def _sequences(longest: int, symbols: Sequence[int] = SYMBOLS) -> Iterator[tuple[int, ...]]:
    """Yield all outputs that end within the maximum length, and all that are cut there."""
    for length in range(longest):
        yield from ((*tokens, EOS) for tokens in product(symbols, repeat=length))
    yield from product(symbols, repeat=longest)


def _ranked(scored: dict[tuple[int, ...], float], penalty: float) -> list[tuple[bool, float, list[int]]]:
    """Return (finished, score, tokens) of each sequence, best first, and cut ones last."""
    ranked = [
        (tokens[-1] == EOS, total / len(tokens) ** penalty, [t for t in tokens if t != EOS])
        for tokens, total in scored.items()
    ]
    return sorted(ranked, key=lambda one: one[:2], reverse=True)


def _batch(sentences: Sequence[int]) -> Batch:
    return collate_ids([[sentence] for sentence in sentences], None, range(len(sentences)))


def _same(
    found: list[DecodedSequence], expected: list[tuple[bool, float, list[int]]], tolerance: float = 1e-12
) -> None:
    """Assert the same sequences with the same scores, best first; equal scores may be in any order."""
    assert [one.score for one in found] == pytest.approx([one[1] for one in expected], abs=tolerance)
    scores = {(finished, *tokens): score for finished, score, tokens in expected}
    assert {(one.finished, *one.tokens): one.score for one in found} == pytest.approx(scores, abs=tolerance)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("longest", [1, 3, LONGEST])
def test_an_exhaustive_beam_equals_brute_force(penalty: float, longest: int) -> None:
    model = RandomTree(sentences=3, seed=longest)
    found = beam_search(
        model, _batch([0, 1, 2]), BeamOptions(2 * EVERYTHING, Ranking(alpha=penalty)), max_lengths=[longest] * 3
    )
    for sentence, hypotheses in enumerate(found):
        scored = {tokens: sum(model.log_probs(sentence, tokens)) for tokens in _sequences(longest)}
        _same(hypotheses, _ranked(scored, penalty))


@pytest.mark.parametrize("name", STEP_MODELS)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_an_exhaustive_beam_over_a_real_model_equals_brute_force(name: str, penalty: float) -> None:
    model, sources, longest = step_model(name, V, seed=3), [[3, 4, 5, 3], [5]], 3
    symbols = SYMBOLS if name in NEURAL else range(EOS + 1, FITTED_VOCABULARY)
    found = beam_search(
        model,
        batch_for(name, sources),
        BeamOptions(2 * len(symbols) ** longest, Ranking(alpha=penalty)),
        max_lengths=[longest] * 2,
    )
    forced = _forced if name in NEURAL else _stepped
    for i, hypotheses in enumerate(found):
        batch = batch_for(name, sources[i : i + 1])
        scored = {tokens: forced(model, batch, tokens) for tokens in _sequences(longest, symbols)}
        possible = {tokens: total for tokens, total in scored.items() if total > -math.inf}
        _same(hypotheses, _ranked(possible, penalty), tolerance=tolerance(name))


@pytest.mark.parametrize("name", STEP_MODELS)
def test_the_batch_does_not_change_the_output_of_a_real_model(name: str) -> None:
    vocabulary = FITTED_VOCABULARY if name in FITTED else 30
    model = step_model(name, vocabulary, seed=4)
    sources = [[5, 9, 12, 20, 7, 7], [8], [29, 4], [13, 17, 5], [9, 9, 9, 9, 9, 9, 9, 9, 9]]
    sources = [[EOS + 1 + id % (vocabulary - EOS - 1) for id in source] for source in sources]

    def search(chosen: list[list[int]]) -> list[list[DecodedSequence]]:
        lengths = [len(source) + 3 for source in chosen]
        return beam_search(model, batch_for(name, chosen), BeamOptions(4), max_lengths=lengths)

    alone = [search([source])[0] for source in sources]
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [3, 0]):
        for i, hypotheses in zip(order, search([sources[i] for i in order]), strict=True):
            assert [one.tokens for one in hypotheses] == [one.tokens for one in alone[i]]
            assert [one.score for one in hypotheses] == pytest.approx(
                [one.score for one in alone[i]], abs=tolerance(name)
            )


def _forced(model: Any, batch: Batch, tokens: tuple[int, ...]) -> float:
    """Return log P of the tokens, of which the last may be the end, by teacher forcing."""
    target = torch.tensor([[BOS, *tokens[:-1]]])
    with torch.no_grad():
        logits = model(replace(batch, target_in=target, target_lengths=torch.tensor([len(tokens)])))
    log_probs = logits.log_softmax(-1)[0]
    return float(sum(log_probs[t, token] for t, token in enumerate(tokens)))


def _stepped(model: Any, batch: Batch, tokens: tuple[int, ...]) -> float:
    """Return the same for a model without teacher forcing: one row, step by step."""
    (memory, state), total = model.start(batch), 0.0
    for last, token in zip((BOS, *tokens), tokens, strict=False):
        step = model.step(memory, state, torch.tensor([last]))
        state, total = step.state, total + step.log_probs[0, token].item()
    return total


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    model = RandomTree(sentences=4, seed=seed)
    for sentence, hypotheses in enumerate(
        beam_search(model, _batch(range(4)), BeamOptions(1, Ranking(alpha=0.0)), max_lengths=[LONGEST] * 4)
    ):
        tokens: list[int] = []
        while len(tokens) < LONGEST and (not tokens or tokens[-1] != EOS):
            allowed = {v: model.log_probs(sentence, [*tokens, v])[-1] for v in range(EOS, V)}
            tokens.append(max(allowed, key=lambda v: allowed[v]))
        best = hypotheses[0]
        assert best.tokens == [token for token in tokens if token != EOS]
        assert best.finished == (tokens[-1] == EOS)
        assert best.score == pytest.approx(sum(model.log_probs(sentence, tokens)))


@given(
    sentences=st.lists(st.integers(0, 5), min_size=1, max_size=7),
    beam=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 5),
)
@settings(max_examples=60)
def test_the_output_does_not_depend_on_the_batch_or_its_order(
    sentences: list[int], beam: int, penalty: float, seed: int
) -> None:
    model = RandomTree(sentences=6, seed=seed)
    longest = [1 + sentence % LONGEST for sentence in range(6)]

    def search(chosen: list[int]) -> list[list[DecodedSequence]]:
        return beam_search(
            model,
            _batch(chosen),
            BeamOptions(beam, Ranking(alpha=penalty)),
            max_lengths=[longest[s] for s in chosen],
        )

    for sentence, hypotheses in zip(sentences, search(sentences), strict=True):
        assert hypotheses == search([sentence])[0]


@given(seed=st.integers(0, 1000), beam=st.integers(1, 8), longest=st.integers(1, LONGEST))
@settings(max_examples=60)
def test_hypotheses_are_sorted_distinct_and_consistent(seed: int, beam: int, longest: int) -> None:
    model = RandomTree(sentences=2, seed=seed)
    for sentence, hypotheses in enumerate(
        beam_search(model, _batch([0, 1]), BeamOptions(beam, Ranking(alpha=0.7)), max_lengths=[longest] * 2)
    ):
        ranks = [(one.finished, one.score) for one in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        assert len({(tuple(one.tokens), one.finished) for one in hypotheses}) == len(hypotheses) >= 1
        for one in hypotheses:
            tokens = [*one.tokens, EOS] if one.finished else one.tokens
            assert one.log_probs == pytest.approx(model.log_probs(sentence, tokens), abs=1e-12)
            assert one.score == pytest.approx(sum(one.log_probs) / len(tokens) ** 0.7, abs=1e-12)
            assert one.finished or len(tokens) == longest


def test_the_attention_follows_its_hypothesis() -> None:
    model = RandomTree(sentences=3, seed=1)
    for sentence, hypotheses in enumerate(
        beam_search(model, _batch(range(3)), BeamOptions(4), max_lengths=[LONGEST] * 3, return_attention=True)
    ):
        for one in hypotheses:
            prefix, expected = 0, []
            for token in [*one.tokens, EOS] if one.finished else one.tokens:
                expected.append(sentence + 100.0 * prefix)
                prefix = prefix * V + token
            assert one.attention is not None
            assert one.attention[:, 0].tolist() == expected
