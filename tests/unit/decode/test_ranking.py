"""Scores against their formulas, and the upper bound for continuations."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.decode.options import BeamOptions
from seqloom.decode.ranking import Ranking, uncovered
from seqloom.errors import SeqloomError


def test_the_formulas() -> None:
    assert Ranking("none").score(-6.0, 4) == -6.0
    assert Ranking("length", alpha=1.0).score(-6.0, 4) == -1.5
    assert Ranking("length", alpha=0.5).score(-6.0, 4) == -3.0
    assert Ranking("gnmt", alpha=0.6).score(-6.0, 4) == pytest.approx(-6.0 / (9 / 6) ** 0.6)
    assert Ranking("none", reward=0.5).score(-6.0, 4) == -4.0
    assert Ranking("none", coverage=2.0).score(-6.0, 4, uncovered=-0.25) == -6.5


def test_unknown_names_are_errors() -> None:
    with pytest.raises(SeqloomError, match="length norm called 'gnmtt'"):
        Ranking("gnmtt")  # type: ignore[arg-type]
    with pytest.raises(SeqloomError, match="stop rule called 'never'"):
        BeamOptions(5, stop="never")  # type: ignore[arg-type]


def test_source_tokens_without_attention_are_penalised() -> None:
    coverage = torch.tensor([1.2, 0.6, 0.2, 0.9])
    assert uncovered(coverage, 3) == pytest.approx(math.log(0.6) + math.log(0.2))
    assert uncovered(torch.full((3,), 2.0), 3) == 0.0
    assert uncovered(torch.zeros(1), 1) > -math.inf


@given(
    norm=st.sampled_from(["none", "length", "gnmt"]),
    alpha=st.floats(0, 2),
    reward=st.floats(0, 3),
    coverage=st.floats(0, 1),
    log_prob=st.floats(-30, 0),
    steps=st.lists(st.floats(-5, 0), min_size=1, max_size=6),
    cost=st.floats(-9, 0),
)
def test_no_continuation_exceeds_the_bound(
    norm: str, alpha: float, reward: float, coverage: float, log_prob: float, steps: list[float], cost: float
) -> None:
    ranking = Ranking(norm, alpha, reward, coverage)  # type: ignore[arg-type]
    bound = ranking.bound(log_prob, 3, 9)
    for more in range(1, len(steps) + 1):
        assert ranking.score(log_prob + sum(steps[:more]), 3 + more, cost) <= bound + 1e-9
