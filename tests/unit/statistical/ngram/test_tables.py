"""Tests of single probabilities, distributions, and shortened contexts."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

from seqloom.statistical.ngram import tables
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.types import BOS, EOS, PAD

V = 12
DRAW = random.Random(0)
ROWS = [[min(3 + int(DRAW.expovariate(0.4)), V - 2) for _ in range(DRAW.randrange(9))] for _ in range(150)]
MODELS = [
    Ngrams.estimate(ROWS, order=order, vocabulary=V, prune=prune)
    for order, prune in ((1, ()), (2, ()), (4, ()), (4, (0, 1)), (5, (0, 0, 2)), (3, (0, 1000)))
]
CONTEXTS = [
    (),
    (BOS,),
    (V - 1,),
    (BOS, V - 1),
    *({tuple((BOS, *row)[-DRAW.randrange(1, 7) :]) for row in ROWS}),
]
MODEL = pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{[len(level) for level in model.levels]}")


@MODEL
def test_distributions_sum_to_one(model: Ngrams) -> None:
    found = model.log_probs(CONTEXTS)
    assert found.shape == (len(CONTEXTS), V)
    assert np.exp(found.astype(float)).sum(axis=1) == pytest.approx(1, rel=1e-6)
    assert np.isneginf(found[:, [PAD, BOS]]).all() and np.isfinite(found[:, EOS:]).all()


@MODEL
def test_log_prob_matches_the_distribution(model: Ngrams) -> None:
    for context, row in zip(CONTEXTS, model.log_probs(CONTEXTS), strict=True):
        for _ in range(2):  # the second time from the cache
            assert [model.log_prob(context, word)[0] for word in range(V)] == pytest.approx(row, rel=1e-5)


@MODEL
def test_returned_context_gives_the_same_probabilities(model: Ngrams) -> None:
    for context in CONTEXTS:
        for word in range(3, V):
            left = model.log_prob(context, word)[1]
            assert left == (*context, word)[len(context) + 1 - len(left) :] and len(left) < model.order
            shortened, whole = model.log_probs([left, (*context, word)])
            np.testing.assert_allclose(shortened, whole, rtol=1e-6)


@pytest.mark.parametrize("model", MODELS[1:3])
def test_returned_context_is_the_shortest(model: Ngrams) -> None:
    for context in CONTEXTS:
        for word in range(3, V):
            left = model.log_prob(context, word)[1]
            if left:
                whole, shorter = model.log_probs([left, left[1:]])
                assert not np.allclose(whole[EOS:], shorter[EOS:], rtol=1e-6)


def test_score_includes_eos() -> None:
    model = MODELS[2]
    whole = [model.log_prob((BOS, 4, 5)[: i + 1], word)[0] for i, word in enumerate((4, 5, EOS))]
    assert model.score([4, 5]) == pytest.approx(whole)
    assert model.start == (BOS,)


@MODEL
def test_tensors_round_trip(model: Ngrams) -> None:
    again = Ngrams.from_tensors(model.to_tensors())
    assert again.order == model.order and again.vocabulary == V
    np.testing.assert_array_equal(again.log_probs(CONTEXTS), model.log_probs(CONTEXTS))


def test_results_do_not_depend_on_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_CACHE_SIZE", 3)
    fresh = Ngrams(MODELS[2].levels)
    for row in ROWS[:40]:
        assert fresh.score(row) == MODELS[2].score(row)
    assert len(fresh._cache) <= 3 and len(fresh._nodes) <= 3


def test_model_can_be_pickled() -> None:
    again = copy.deepcopy(MODELS[2])  # uses the same protocol as pickling to a worker
    assert again.score(ROWS[0]) == MODELS[2].score(ROWS[0]) and again.notes == MODELS[2].notes
