"""Scores, windows and contexts against loops over single queries and keys in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from seqloom.nn.attention import attend
from seqloom.nn.context import AttentionContext, MeanContext, Window
from seqloom.nn.scores import ScoreName, make_score
from seqloom.types import lengths_to_mask

Array = np.ndarray[Any, np.dtype[np.float64]]

B, T, S, WIDTH, INNER = 3, 4, 7, 6, 5
LENGTHS = torch.tensor([5, 1, 7])
MASK = lengths_to_mask(LENGTHS, S)
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}
SCORES: tuple[ScoreName, ...] = get_args(ScoreName)

over_scores = pytest.mark.parametrize("name", SCORES)
with_and_without_coverage = pytest.mark.parametrize("covered", [False, True])


pytestmark = pytest.mark.usefixtures("double_precision")


def _array(tensor: Any) -> Array:
    array: Array = tensor.detach().numpy()
    return array


def _dot(score: nn.Module, q: Array, k: Array, c: float, w: Array) -> float:
    """e = q·k, where a key that was looked at is k + c w."""
    return float(sum(q[d] * (k[d] + c * w[d]) for d in range(len(q))))


def _scaled_dot(score: nn.Module, q: Array, k: Array, c: float, w: Array) -> float:
    """e = q·k / √d."""
    return _dot(score, q, k, c, w) / float(np.sqrt(len(q)))


def _bilinear(score: nn.Module, q: Array, k: Array, c: float, w: Array) -> float:
    """e = qᵀ W k; a linear layer keeps Wᵀ."""
    W = _array(score.get_parameter("matrix.weight")).T
    return float(sum(q[i] * W[i, j] * (k[j] + c * w[j]) for i in range(len(q)) for j in range(len(k))))


def _additive(score: nn.Module, q: Array, k: Array, c: float, w: Array) -> float:
    """e = vᵀ tanh(W₁ k + W₂ q + c w)."""
    W1, W2, v = (_array(score.get_parameter(f"{part}.weight")) for part in ("key", "query", "value"))
    return float(v[0] @ np.tanh(W1 @ k + W2 @ q + c * w))


def _feed_forward(score: nn.Module, q: Array, k: Array, c: float, w: Array) -> float:
    """e = vᵀ relu(W [k; q] + b + c w), from the concatenation itself."""
    W = np.concatenate([_array(score.get_parameter(f"{part}.weight")) for part in ("key", "query")], axis=1)
    inner = W @ np.concatenate((k, q)) + _array(score.get_parameter("key.bias")) + c * w
    return float(_array(score.get_parameter("value.weight"))[0] @ np.maximum(inner, 0))


NAIVE: dict[str, Callable[[nn.Module, Array, Array, float, Array], float]] = {
    "dot": _dot,
    "scaled-dot": _scaled_dot,
    "bilinear": _bilinear,
    "additive": _additive,
    "feed-forward": _feed_forward,
}


def _coverage_vector(score: nn.Module) -> Array:
    """w, or nothing that would count."""
    if score.coverage is not None:
        return _array(score.coverage)
    return np.zeros(INNER if hasattr(score, "query") else WIDTH + 3)


@with_and_without_coverage
@over_scores
def test_a_score_is_its_equation(name: ScoreName, covered: bool) -> None:
    width = WIDTH if "dot" in name else WIDTH + 3  # only the others may differ
    score = make_score(name, width, WIDTH, INNER, coverage=covered)
    queries, keys = torch.randn(B, T, width), torch.randn(B, S, WIDTH)
    coverage = torch.rand(B, T, S) if covered else None
    given = score(queries, score.project_keys(keys), coverage).detach()
    assert given.shape == (B, T, S)
    for b, t, s in np.ndindex(B, T, S):
        c = float(coverage[b, t, s]) if coverage is not None else 0.0
        expected = NAIVE[name](score, _array(queries[b, t]), _array(keys[b, s]), c, _coverage_vector(score))
        assert float(given[b, t, s]) == pytest.approx(expected, abs=1e-12)


@over_scores
def test_what_has_had_no_weight_is_scored_as_without_coverage(name: ScoreName) -> None:
    score = make_score(name, WIDTH, WIDTH, INNER, coverage=True)
    queries, keys = torch.randn(B, T, WIDTH), score.project_keys(torch.randn(B, S, WIDTH))
    assert_close(score(queries, keys, torch.zeros(B, T, S)), score(queries, keys), **EXACT)
    assert not torch.allclose(score(queries, keys, torch.ones(B, T, S)), score(queries, keys))


def _context(
    window: Window = "none", window_size: int = 2, key_width: int = WIDTH, **chosen: Any
) -> AttentionContext:
    options: dict[str, Any] = {"score": "additive", "projected": False, "coverage": False} | chosen
    return AttentionContext(
        WIDTH, key_width, attention_width=INNER, window=window, window_size=window_size, **options
    )


def _through(layer: nn.Module, x: Array) -> Array:
    """W x, or x where there is no projection."""
    return _array(layer.weight) @ x if isinstance(layer, nn.Linear) else x


def _naive_centre(context: AttentionContext, q: Array, length: int, position: int) -> float:
    """The middle of the window: the query's own position, or p = (S - 1) sigmoid(vᵀ tanh(W q))."""
    if context.window == "monotonic":
        return min(position, length - 1)
    v, W = _array(context.centre_value.weight)[0], _array(context.centre_inner.weight)
    return float((length - 1) / (1 + np.exp(-(v @ np.tanh(W @ q)))))


def _naive(
    name: ScoreName, context: AttentionContext, query: Array, encoded: Array, coverage: Array, position: int
) -> tuple[Array, Array]:
    """Context and weights of one query over one sentence without padding."""
    q, w = _through(context.query, query), _coverage_vector(context.score)
    scores = [
        NAIVE[name](context.score, q, _through(context.key, h), c, w)
        for h, c in zip(encoded, coverage, strict=True)
    ]
    seen, factors = [True] * len(encoded), [1.0] * len(encoded)
    if context.window != "none":
        centre = _naive_centre(context, q, len(encoded), position)
        seen = [abs(s - centre) <= context.window_size for s in range(len(encoded))]
    if context.window == "predictive":
        sigma = context.window_size / 2
        factors = [np.exp(-((s - centre) ** 2) / (2 * sigma**2)) for s in range(len(encoded))]
    total = sum(np.exp(e) for e, inside in zip(scores, seen, strict=True) if inside)
    weights = [
        np.exp(e) / total * factor if inside else 0.0
        for e, inside, factor in zip(scores, seen, factors, strict=True)
    ]
    values = [_through(context.value, h) for h in encoded]
    return np.sum([weight * v for weight, v in zip(weights, values, strict=True)], axis=0), np.array(weights)


@with_and_without_coverage
@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("window", get_args(Window))
@over_scores
def test_a_context_is_a_loop_over_queries_and_keys(
    name: ScoreName, window: Window, projected: bool, covered: bool
) -> None:
    context = _context(window, score=name, projected=projected, coverage=covered)
    queries, encoded = torch.randn(B, T, WIDTH), torch.randn(B, S, WIDTH)
    positions = torch.tensor([[0, 2, 3, 9], [0, 1, 2, 3], [6, 5, 1, 0]])  # also past the end of the source
    coverage = 3 * torch.rand(B, T, S)
    found, weights = context(
        queries, context.build_memory(encoded, MASK), positions, coverage if covered else None
    )
    assert found.shape == (B, T, context.width) and context.width == (INNER if projected else WIDTH)
    for b, t in np.ndindex(B, T):
        length = int(LENGTHS[b])
        covering = _array(coverage[b, t, :length]) * covered
        expected, expected_weights = _naive(
            name, context, _array(queries[b, t]), _array(encoded[b, :length]), covering, int(positions[b, t])
        )
        assert _array(found[b, t]) == pytest.approx(expected, abs=1e-12)
        assert _array(weights[b, t, :length]) == pytest.approx(expected_weights, abs=1e-12)
        assert not weights[b, t, length:].any()


def test_the_scaled_dot_context_is_torchs_scaled_dot_product_attention() -> None:
    context = _context(score="scaled-dot")
    queries, encoded = torch.randn(B, T, WIDTH), torch.randn(B, S, WIDTH)
    found, _ = context(queries, context.build_memory(encoded, MASK), None, None)
    expected = scaled_dot_product_attention(queries, encoded, encoded, attn_mask=MASK.unsqueeze(1))
    assert_close(found, expected, **EXACT)


@over_scores
def test_a_window_as_wide_as_the_sentence_is_global_attention(name: ScoreName) -> None:
    local, everywhere = _context("monotonic", S - 1, score=name), _context(score=name)
    everywhere.load_state_dict(local.state_dict())
    queries, encoded = torch.randn(B, T, WIDTH), torch.randn(B, S, WIDTH)
    positions = torch.arange(T).expand(B, T)
    found = local(queries, local.build_memory(encoded, MASK), positions, None)
    assert_close(found, everywhere(queries, everywhere.build_memory(encoded, MASK), None, None), **EXACT)


def test_the_mean_context_is_the_mean_of_the_real_states() -> None:
    encoded, context = torch.randn(B, S, WIDTH), MeanContext(WIDTH)
    found, weights = context(torch.randn(B, T, WIDTH), context.build_memory(encoded, MASK), None, None)
    for b, length in enumerate(LENGTHS.tolist()):
        for t in range(T):
            assert_close(found[b, t], encoded[b, :length].mean(dim=0), **EXACT)
            assert weights[b, t].tolist() == pytest.approx([1 / length] * length + [0.0] * (S - length))


def test_attend_scales_its_weights_by_a_factor_afterwards() -> None:
    scores, values, factor = torch.randn(B, T, S), torch.randn(B, S, WIDTH), torch.rand(B, T, S)
    _, plain = attend(scores, values, MASK.unsqueeze(1))
    context, weights = attend(scores, values, MASK.unsqueeze(1), factor=factor)
    assert_close(weights, plain * factor, **EXACT)
    assert_close(context, torch.einsum("bts,bsd->btd", plain * factor, values), **EXACT)


@pytest.mark.parametrize("window", get_args(Window))
@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("name", ["bilinear", "additive", "feed-forward"])
def test_keys_may_be_wider_than_queries(name: ScoreName, projected: bool, window: Window) -> None:
    context = _context(window, score=name, projected=projected, key_width=WIDTH + 3)
    queries, encoded = torch.randn(B, T, WIDTH), torch.randn(B, S, WIDTH + 3)
    positions = torch.arange(T).expand(B, T)
    found, weights = context(queries, context.build_memory(encoded, MASK), positions, None)
    for b, t in np.ndindex(B, T):
        length = int(LENGTHS[b])
        expected, expected_weights = _naive(
            name, context, _array(queries[b, t]), _array(encoded[b, :length]), np.zeros(length), t
        )
        assert _array(found[b, t]) == pytest.approx(expected, abs=1e-12)
        assert _array(weights[b, t, :length]) == pytest.approx(expected_weights, abs=1e-12)


def test_raw_weights_are_the_scores() -> None:
    context = _context(score="dot", weights="raw")
    queries, encoded = torch.randn(B, T, WIDTH), torch.randn(B, S, WIDTH)
    found, weights = context(queries, context.build_memory(encoded, MASK), None, None)
    for b, t in np.ndindex(B, T):
        states = _array(encoded[b, : int(LENGTHS[b])])
        alpha = states @ _array(queries[b, t])
        assert _array(weights[b, t, : len(states)]) == pytest.approx(alpha, abs=1e-12)
        assert _array(found[b, t]) == pytest.approx(alpha @ states, abs=1e-12)
        assert not weights[b, t, len(states) :].any()
