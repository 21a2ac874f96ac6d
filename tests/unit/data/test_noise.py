"""Noise: the fraction of hidden tokens, their replacements, and reproducibility."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.batching import Position
from seqloom.data.config import NoiseConfig
from seqloom.data.noise import Noise, choose, spans
from seqloom.data.store import TokenStore
from seqloom.types import BOS, EOS, PAD, UNK, Batch

VOCABULARY, MASK = 60, 17  # in the middle of the ids: random replacements must skip it
PLACE = Position(2, 5)
LENGTHS = st.lists(st.integers(0, 30), min_size=1, max_size=40)


class Texts(TokenStore):
    """Store of targets in memory."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.ids = {"target": np.array([id for row in rows for id in row], np.uint16)}
        self.offsets = {"target": np.cumsum([0, *map(len, rows)])}


def _texts(lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Return random ids without [MASK], distinct in texts of up to 50 tokens."""
    ids = [id for id in range(UNK + 1, VOCABULARY) if id != MASK]
    random = np.random.default_rng(seed)
    return [random.choice(ids, n, replace=n > 50).tolist() for n in lengths]


def _batch(rows: list[list[int]], *, place: Position = PLACE, seed: int = 1, **options: Any) -> Batch:
    in_place = options.pop("in_place", True)
    config = NoiseConfig(**{"kind": "mask", **options})
    noise = Noise(config, mask=MASK, vocabulary=VOCABULARY, seed=seed, in_place=in_place)
    return noise.collate(Texts(rows), np.arange(len(rows)), place)


# Fraction of hidden tokens


@given(LENGTHS, st.floats(0.01, 1.0))
def test_the_given_fraction_of_each_text_is_chosen_and_at_least_one_token(
    lengths: list[int], share: float
) -> None:
    chosen = choose(np.array(lengths), share, np.random.default_rng(0))
    for n, row in zip(lengths, np.split(chosen, np.cumsum(lengths)[:-1]), strict=True):
        assert row.sum() == (max(1, round(share * n)) if n else 0)


def test_every_position_is_chosen_equally_often() -> None:
    chosen = choose(np.full(20_000, 10), 0.3, np.random.default_rng(0)).reshape(-1, 10)
    assert chosen.sum(axis=1).tolist() == [3] * 20_000
    assert chosen.mean(axis=0) == pytest.approx(np.full(10, 0.3), abs=0.015)  # 4.6 standard deviations
    together = np.corrcoef(chosen.T)[np.triu_indices(10, k=1)]
    assert together == pytest.approx(np.full(45, -1 / 9), abs=0.035)  # as for sampling without replacement


@given(LENGTHS, st.floats(0.01, 1.0), st.floats(1.0, 8.0))
def test_every_text_has_a_span(lengths: list[int], share: float, span: float) -> None:
    chosen = spans(np.array(lengths), share, span, np.random.default_rng(0))
    assert len(chosen) == sum(lengths)
    for n, row in zip(lengths, np.split(chosen, np.cumsum(lengths)[:-1]), strict=True):
        assert row.any() == (n > 0)


@pytest.mark.parametrize("share, span", [(0.15, 3.0), (0.3, 3.0), (0.15, 1.0), (0.15, 6.0)])
def test_spans_hide_about_the_given_fraction_of_long_texts(share: float, span: float) -> None:
    """A token stays if no span that begins k tokens before it is longer than k: Π (1 - r P(L > k))."""
    chosen = spans(np.full(200, 2000), share, span, np.random.default_rng(0))
    rate, longer, term, stays = (
        -math.log(1 - share) / span,
        1.0,
        math.exp(1 - span),
        1.0,
    )  # L - 1: Poisson(l - 1)
    for k in range(60):
        stays *= 1 - rate * longer
        longer -= term
        term *= (span - 1) / (k + 1)
    assert chosen.mean() == pytest.approx(1 - stays, abs=0.004)
    assert chosen.mean() == pytest.approx(share, abs=0.02)


def test_spans_have_the_given_mean_length() -> None:
    """With few hidden tokens, spans rarely touch, so runs are spans."""
    chosen = spans(np.full(400, 5000), 0.02, 4.0, np.random.default_rng(0))
    begins = chosen & ~np.roll(chosen, 1)
    assert chosen.sum() / begins.sum() == pytest.approx(4.0, abs=0.15)


# Replacements


@pytest.fixture(scope="module")
def many() -> tuple[list[list[int]], Batch]:
    """Return a batch of 400,000 tokens, 15 % of them hidden."""
    rows = _texts([1000] * 400)
    return rows, _batch(rows)


def test_80_percent_of_hidden_tokens_are_masked_10_replaced_10_kept(
    many: tuple[list[list[int]], Batch],
) -> None:
    rows, batch = many
    assert batch.target_out is not None
    hidden = batch.target_out != PAD
    text = torch.tensor(rows)[hidden[:, :-1]]
    seen = batch.source[hidden]
    count = 60_000
    assert len(seen) == batch.target_tokens == count
    assert float((seen == MASK).sum()) / count == pytest.approx(0.8, abs=0.008)
    kept = 0.1 + 0.1 / (VOCABULARY - UNK - 2)  # a random replacement may equal the token
    assert float((seen == text).sum()) / count == pytest.approx(kept, abs=0.006)


def test_random_replacements_are_uniform_over_ordinary_tokens(many: tuple[list[list[int]], Batch]) -> None:
    rows, batch = many
    assert batch.target_out is not None
    hidden = (batch.target_out != PAD)[:, :-1]
    seen, text = batch.source[:, :-1][hidden], torch.tensor(rows)[hidden]
    drawn = torch.bincount(seen[(seen != MASK) & (seen != text)], minlength=VOCABULARY)
    assert not drawn[[PAD, BOS, EOS, UNK, MASK]].any()
    each = drawn[[id for id in range(UNK + 1, VOCABULARY) if id != MASK]].float()
    assert each.sum() == pytest.approx(6000, abs=400)
    assert each.min() > 0.55 * each.mean() and each.max() < 1.45 * each.mean()


@pytest.mark.parametrize("random, keep", [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])
def test_the_fractions_are_options(random: float, keep: float) -> None:
    rows = _texts([50] * 60)
    batch = _batch(rows, random=random, keep=keep, share=0.5)
    assert batch.target_out is not None
    hidden = (batch.target_out != PAD)[:, :-1]
    seen, text = batch.source[:, :-1][hidden], torch.tensor(rows)[hidden]
    assert float((seen == MASK).float().mean()) == pytest.approx(1 - random - keep)
    assert float((seen == text).float().mean()) == pytest.approx(keep, abs=0.07)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_the_target_is_the_true_token_at_hidden_positions(lengths: list[int]) -> None:
    rows = _texts(lengths)
    batch = _batch(rows)
    assert batch.target_out is not None and batch.target_lengths is not None
    assert batch.target_out.shape == batch.source.shape
    assert batch.source_lengths.tolist() == batch.target_lengths.tolist() == [n + 1 for n in lengths]
    for row, source, target in zip(rows, batch.source.tolist(), batch.target_out.tolist(), strict=True):
        hidden = [place for place, token in enumerate(target) if token != PAD]
        assert len(hidden) == max(1, round(0.15 * len(row)))
        assert all(target[place] == row[place] for place in hidden)
        assert all(source[place] == token for place, token in enumerate(row) if place not in hidden)
        assert source[len(row)] == EOS and set(source[len(row) + 1 :]) <= {PAD}
    assert batch.target_tokens == int((batch.target_out != PAD).sum())


def test_the_target_of_an_encoder_decoder_is_the_entire_text() -> None:
    rows = _texts([3, 9, 1])
    for kind in ("mask", "infill"):
        batch = _batch(rows, kind=kind, in_place=False)
        assert batch.target_in is not None and batch.target_out is not None
        for row, before, behind in zip(rows, batch.target_in.tolist(), batch.target_out.tolist(), strict=True):
            assert before[: len(row) + 1] == [BOS, *row]
            assert behind[: len(row) + 1] == [*row, EOS]
        assert batch.target_tokens == 3 + 9 + 1 + 3
        assert (batch.source == MASK).any()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=10), st.integers(0, 9), st.floats(0.05, 0.9))
def test_every_hidden_span_is_one_mask(lengths: list[int], seed: int, share: float) -> None:
    """The text around the masks is complete, and each mask replaces at least one token."""
    rows = _texts(lengths, seed)
    batch = _batch(rows, kind="infill", share=share, seed=seed, in_place=False)
    for row, source, length in zip(rows, batch.source.tolist(), batch.source_lengths.tolist(), strict=True):
        assert source[length - 1] == EOS
        seen, hidden = set(source), list[int]()
        restored = []
        for token in row:
            if token in seen:
                restored.append(token)
            elif not restored or restored[-1] != MASK:
                restored.append(MASK)
            if token not in seen:
                hidden.append(token)
        assert source[: length - 1] == restored
        assert hidden


# Reproducibility


def test_hidden_tokens_depend_only_on_seed_epoch_and_batch() -> None:
    rows = _texts([20] * 30)
    for kind in ("mask", "infill"):
        first = _batch(rows, kind=kind).source
        assert torch.equal(_batch(rows, kind=kind).source, first)
        for change in ({"seed": 2}, {"place": Position(3, 5)}, {"place": Position(2, 6)}):
            other = _batch(rows, kind=kind, **change).source
            assert other.shape != first.shape or not torch.equal(other, first)


def test_the_stored_text_is_not_changed() -> None:
    store = Texts(_texts([20] * 3))
    before = store.ids["target"].copy()
    noise = Noise(NoiseConfig(kind="mask"), mask=MASK, vocabulary=VOCABULARY, seed=1, in_place=True)
    batch = noise.collate(store, np.array([2, 0]), PLACE)
    assert np.array_equal(store.ids["target"], before)
    assert batch.index.tolist() == [2, 0]
    assert batch.target_out is not None
    hidden = batch.target_out[0] != PAD
    assert batch.target_out[0][hidden].tolist() == before[40:][hidden[:-1].numpy()].tolist()


@pytest.mark.parametrize("wrong", [{"random": 0.6, "keep": 0.5}, {"share": 0}, {"share": 1.5}, {"span": 0.5}])
def test_invalid_fractions_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        NoiseConfig(**wrong)  # type: ignore[arg-type]
