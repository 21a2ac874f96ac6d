"""Sampling against a naive implementation: NumPy filters by token, and one sample at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.decode import sampling
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import SamplingConfig
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking
from seqloom.decode.sampling import sample, uniforms
from seqloom.types import BOS, EOS, PAD, Batch
from support.step_models import (
    FITTED,
    FITTED_VOCABULARY,
    STEP_MODELS,
    TableModel,
    batch_for,
    step_model,
    tolerance,
)

Probs = NDArray[np.float64]


# Naive implementation. A filter takes the probabilities of one row and returns which tokens it keeps.


def _top_k(p: Probs, k: float) -> list[bool]:
    border = sorted(p, reverse=True)[: int(k)][-1]
    return [value >= border for value in p]


def _top_p(p: Probs, mass: float) -> list[bool]:
    return _fill(p, sorted(range(len(p)), key=lambda v: -p[v]), mass)


def _min_p(p: Probs, share: float) -> list[bool]:
    return [value >= share * max(p) for value in p]


def _typical(p: Probs, mass: float) -> list[bool]:
    entropy = -sum(value * math.log(value) for value in p if value)
    return _fill(p, sorted(np.flatnonzero(p), key=lambda v: abs(-math.log(p[v]) - entropy)), mass)


def _fill(p: Probs, order: Sequence[int], mass: float) -> list[bool]:
    kept: set[int] = set()
    for token in order:
        if sum(p[v] for v in kept) < mass:
            kept.add(int(token))
    return [v in kept for v in range(len(p))]


def _kept(p: Probs, stays: list[bool]) -> Probs:
    left = np.where(stays, p, 0.0)
    return left / left.sum()


def _distribution(log_probs: Sequence[float], options: SamplingConfig) -> Probs:
    """Return the distribution to draw from, with filters in the documented order."""
    p = np.exp(np.array(log_probs, np.float64))
    p[[PAD, BOS]] = 0.0
    p /= p.sum()
    if options.temperature == 0:
        return _kept(p, _top_k(p, 1))
    p = p ** (1 / options.temperature)
    p /= p.sum()
    for wanted, rule in (
        (options.top_k, _top_k),
        (options.top_p if options.top_p < 1 else 0, _top_p),
        (options.min_p, _min_p),
        (options.typical if options.typical < 1 else 0, _typical),
    ):
        if wanted:
            p = _kept(p, rule(p, wanted))
    return p


FILTERS: list[tuple[Callable[[Tensor, float], Tensor], Callable[[Probs, float], list[bool]], list[float]]] = [
    (sampling.keep_top_k, _top_k, [1, 2, 5, 17]),  # type: ignore[list-item]
    (sampling.keep_top_p, _top_p, [0.01, 0.3, 0.9, 0.999]),
    (sampling.keep_min_p, _min_p, [0.01, 0.2, 0.7, 1.0]),
    (sampling.keep_typical, _typical, [0.01, 0.3, 0.9, 0.999]),
]


@pytest.mark.parametrize("width", [1, 2, 5, 400], ids=lambda n: f"sorted-at-first-{n}")
@pytest.mark.parametrize("fast, slow, values", FILTERS, ids=[fast.__name__ for fast, _, _ in FILTERS])
def test_a_filter_equals_its_definition(
    fast: Callable[[Tensor, float], Tensor],
    slow: Callable[[Probs, float], list[bool]],
    values: list[float],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "_FIRST_WIDTH", width)
    random = torch.Generator().manual_seed(width)
    spread = torch.tensor([0.1, 1.0, 3.0, 9.0]).repeat(5).unsqueeze(1)  # from nearly flat to one token
    weights = (torch.randn(20, 43, generator=random, dtype=torch.float64) * spread) + 7  # not normalised
    weights[3:9, ::4] = -torch.inf  # excluded by an earlier filter
    for value in values:
        left = fast(weights, value)
        for row, before in zip(left, weights, strict=True):
            stays = slow(before.softmax(0).numpy(), value)
            expected = [w if stay else -math.inf for w, stay in zip(before.tolist(), stays, strict=True)]
            assert row.tolist() == expected


def test_temperature_is_a_power_of_the_probabilities() -> None:
    weights = torch.randn(6, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for temperature in (0.3, 1.0, 4.0):
        p = weights.exp() ** (1 / temperature)
        got = sampling.tempered(weights, temperature).softmax(-1)
        torch.testing.assert_close(got, p / p.sum(-1, keepdim=True))


@given(
    temperature=st.sampled_from([0.0, 0.4, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 4, 100]),
    top_p=st.sampled_from([0.2, 0.85, 1.0]),
    min_p=st.sampled_from([0.0, 0.15]),
    typical=st.sampled_from([0.25, 0.8, 1.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=80)
def test_combined_filters_apply_in_the_documented_order(seed: int, **values: Any) -> None:
    options = SamplingConfig(**values)
    random = torch.Generator().manual_seed(seed)
    log_probs = (2 * torch.randn(5, 19, generator=random, dtype=torch.float64)).log_softmax(-1)
    got = sampling.truncated(log_probs, options).softmax(-1).numpy()
    expected = np.stack([_distribution(row, options) for row in log_probs.tolist()])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def _batch(sources: Sequence[Sequence[int]]) -> Batch:
    """Return the batch of these sources, each with a chain as its tree, for models that read trees."""
    return collate_ids(sources, None, range(len(sources)), [range(len(source)) for source in sources])


@pytest.mark.parametrize(
    "values",
    [{}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.3}, {"typical": 0.6}],
    ids=str,
)
def test_frequencies_follow_the_filtered_distribution(values: dict[str, float]) -> None:
    """Pearson's χ² of the first token, and of the second after the most frequent first."""
    model, count = TableModel.random(9, 9, seed=2), 4_000
    options = SamplingConfig(samples=count, seed=5, **values)  # type: ignore[arg-type]
    (found,) = sample(model, _batch([[5]]), options=options, max_lengths=[2])
    sequences = [(*one.tokens, EOS) if one.finished else tuple(one.tokens) for one in found]
    firsts = Counter(tokens[0] for tokens in sequences)
    often = max(set(firsts) - {EOS}, key=lambda token: firsts[token])
    seconds = Counter(tokens[1] for tokens in sequences if tokens[0] == often)
    for seen, last in ((firsts, BOS), (seconds, often)):
        p = _distribution(model.log_probs[last].tolist(), options)
        assert set(seen) <= set(np.flatnonzero(p).tolist())
        expected = p[p > 0] * seen.total()
        observed = np.array([seen[token] for token in np.flatnonzero(p).tolist()])
        chi2 = float(((observed - expected) ** 2 / expected).sum())
        freedom = len(expected) - 1
        assert chi2 < freedom + 4 * math.sqrt(2 * freedom) + 4  # mean + 4 deviations, and the tail


def _one_by_one(
    model: Any,
    batch: Batch,
    prefix: list[int],
    longest: int,
    key: int,
    number: int,
    options: SamplingConfig,
) -> tuple[list[int], list[float]]:
    """Return the tokens, including the end if drawn, and the model's log P of each, drawn step by step."""
    memory, state = model.start(batch)
    tokens: list[int] = []
    log_probs: list[float] = []
    for u in uniforms(options.seed, key, number, longest).tolist():
        step = model.step(memory, state, torch.tensor([tokens[-1] if tokens else BOS]))
        state, given = step.state, step.log_probs[0].tolist()
        if len(tokens) < len(prefix):
            token = prefix[len(tokens)]
        else:
            sums = np.cumsum(_distribution(given, options))
            token = next(v for v, total in enumerate(sums) if total > u * sums[-1])
        tokens.append(token)
        log_probs.append(given[token])
        if token == EOS:
            break
    return tokens, log_probs


SOURCES = [[5, 9, 12, 8, 7, 7], [8], [6, 4], [13, 10, 5], [9] * 9]
PREFIXES = [[4], [], [12, 5, 5], [6], [7, 7]]


def _within(vocabulary: int, rows: list[list[int]]) -> list[list[int]]:
    """Return these ids mapped into a smaller vocabulary."""
    return [[4 + (id - 4) % (vocabulary - 4) for id in row] for row in rows]


@pytest.mark.parametrize("name", STEP_MODELS)
@torch.inference_mode()
def test_samples_of_a_real_model_equal_those_drawn_one_at_a_time(name: str) -> None:
    vocabulary = FITTED_VOCABULARY if name in FITTED else 14
    sources, prefixes = (_within(vocabulary, rows) for rows in (SOURCES, PREFIXES))
    model = step_model(name, vocabulary, seed=4)
    if name not in FITTED:
        for weight in model.output.parameters():
            weight.mul_(3)  # peaked distributions, so that earlier tokens matter
    options = SamplingConfig(samples=3, seed=7, temperature=0.8, top_p=0.95)
    keys, longest = [3, 1, 4, 15, 92], [7, 5, 9, 4, 6]
    expected = [
        [
            _one_by_one(model, batch_for(name, [source]), prefix, limit, key, number, options)
            for number in range(options.samples)
        ]
        for source, prefix, limit, key in zip(sources, prefixes, longest, keys, strict=True)
    ]
    for order in ([0, 1, 2, 3, 4], [4, 2, 0], [1]):
        found = sample(
            model,
            batch_for(name, [sources[i] for i in order]),
            options=options,
            max_lengths=[longest[i] for i in order],
            prefixes=[prefixes[i] for i in order],
            keys=[keys[i] for i in order],
        )
        for i, samples in zip(order, found, strict=True):
            possible = [
                one for one in expected[i] if min(one[1]) > -math.inf
            ]  # of a prefix with a non-zero probability
            for one, (tokens, log_probs) in zip(samples, possible, strict=True):
                assert [*one.tokens, *[EOS] * one.finished] == tokens
                assert one.log_probs == pytest.approx(log_probs, abs=tolerance(name))
                assert one.score == pytest.approx(sum(log_probs), abs=tolerance(name))


@given(
    order=st.permutations(range(5)),
    size=st.integers(1, 5),
    samples=st.integers(1, 4),
    seed=st.integers(0, 9),
)
@settings(max_examples=40)
def test_a_sentence_gets_the_same_samples_in_any_batch_and_order(
    order: list[int], size: int, samples: int, seed: int
) -> None:
    model = TableModel.random(14, 14, seed=1)

    def draw(chosen: list[int]) -> list[list[DecodedSequence]]:
        return sample(
            model,
            _batch([SOURCES[i] for i in chosen]),
            options=SamplingConfig(samples=samples, seed=seed, top_p=0.9),
            max_lengths=[6 + i for i in chosen],
            prefixes=[PREFIXES[i] for i in chosen],
        )

    for i, found in zip(order[:size], draw(order[:size]), strict=True):
        assert found == draw([i])[0]


def test_temperature_zero_is_greedy_search() -> None:
    model, batch, limits = TableModel.random(14, 14, seed=3), _batch(SOURCES), [4, 9, 6, 1, 3]
    greedy = beam_search(model, batch, BeamOptions(1, Ranking(alpha=0)), max_lengths=limits)
    for temperature in (0.0, 1e-12, 1e-320):
        options = SamplingConfig(temperature=temperature)
        for one, best in zip(sample(model, batch, options=options, max_lengths=limits), greedy, strict=True):
            assert (one[0].tokens, one[0].finished) == (best[0].tokens, best[0].finished)
            assert one[0].score == pytest.approx(best[0].score)
