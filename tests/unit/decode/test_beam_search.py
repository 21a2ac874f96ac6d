from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import _best_sums, beam_search
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking
from seqloom.types import BOS, EOS, PAD, UNK
from support.step_models import TableModel

A, B = 4, 5
V = 6


def table(**rows: dict[int, float]) -> TableModel:
    """Return a model with distributions by last token, the same for every source."""
    return TableModel.of({{"start": BOS, "a": A, "b": B}[last]: values for last, values in rows.items()}, V)


def _search(
    model: TableModel, *, beam: int, longest: list[int], penalty: float = 0.0
) -> list[list[DecodedSequence]]:
    batch = collate_ids([[UNK]] * len(longest), None, range(len(longest)))
    return beam_search(model, batch, BeamOptions(beam, Ranking(alpha=penalty)), max_lengths=longest)


def test_beam_search_finds_better_hypotheses_than_greedy_search() -> None:
    model = table(start={A: -0.5, B: -0.9}, a={EOS: -3.0}, b={EOS: -0.1})
    ((greedy,),) = _search(model, beam=1, longest=[5])
    assert greedy.tokens == [A]
    assert greedy.score == pytest.approx(-3.5)
    best = _search(model, beam=2, longest=[5])[0][0]
    assert best.tokens == [B]
    assert best.score == pytest.approx(-1.0)
    assert best.log_probs == pytest.approx([-0.9, -0.1])


def test_length_normalisation_prefers_longer_hypotheses() -> None:
    model = table(start={EOS: -1.0, A: -0.5}, a={EOS: -0.9})
    assert [found.tokens for found in _search(model, beam=2, longest=[4])[0]][:2] == [[], [A]]
    assert [found.tokens for found in _search(model, beam=2, longest=[4], penalty=1.0)[0]][:2] == [[A], []]


def test_padding_and_start_are_never_generated() -> None:
    model = table(start={PAD: 0.0, BOS: 0.0, A: -2.0}, a={PAD: 0.0, BOS: 0.0, EOS: -2.0})
    assert _search(model, beam=1, longest=[5])[0][0].tokens == [A]


def test_each_sentence_has_its_own_maximum_length() -> None:
    model = table(start={A: -0.1}, a={A: -0.1})
    found = _search(model, beam=1, longest=[2, 5, 1])
    assert [hypotheses[0].tokens for hypotheses in found] == [[A] * 2, [A] * 5, [A]]
    assert not any(hypotheses[0].finished for hypotheses in found)


def test_cut_hypotheses_rank_after_finished_ones() -> None:
    model = table(start={A: -0.1, EOS: -9.0}, a={A: -0.1, B: -0.2})
    found = _search(model, beam=4, longest=[3])[0]
    assert [one.finished for one in found] == sorted((one.finished for one in found), reverse=True)
    assert found[0].tokens == []
    assert max(one.score for one in found if not one.finished) > found[0].score


def test_a_model_without_attention_returns_none() -> None:
    assert _search(table(start={EOS: 0.0}), beam=1, longest=[3])[0][0].attention is None


def test_no_sentences_give_no_outputs() -> None:
    assert _search(table(), beam=2, longest=[]) == []


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 150), st.integers(1, 20), st.integers(0, 10**6))
def test_two_level_topk_equals_topk(sentences: int, rows: int, tokens: int, count: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(sentences, rows, tokens, generator=random)
    scores[torch.rand(scores.shape, generator=random) < 0.3] = -math.inf  # excluded by rules
    totals = torch.randn(sentences, rows, generator=random)
    totals[torch.rand(totals.shape, generator=random) < 0.2] = -math.inf  # finished rows
    sums = (totals.unsqueeze(2) + scores).flatten(1)
    expected = sums.sort(dim=1, descending=True).values[:, :count]
    row, token, possible = _best_sums(scores, totals, count)
    assert row.shape == token.shape == possible.shape == expected.shape
    found = sums.gather(1, row * tokens + token)
    assert torch.equal(found.masked_fill(~possible, -math.inf), expected)
    assert torch.equal(possible, expected.isfinite())
