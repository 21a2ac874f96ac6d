"""Every kind of position against loops over the equations of its paper, whole and step by step."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from seqloom.nn.blocks import BlockShape, DecoderBlock, EncoderBlock
from seqloom.nn.multihead import KeysValues, SelfAttention
from seqloom.nn.positions import Alibi, Kerple, PositionName, Relative, Rotary, T5Buckets, sinusoids
from seqloom.types import lengths_to_mask

WIDTH, HEADS, QK, V, CLIP = 7, 3, 4, 5, 3
LENGTHS = [22, 9]  # past the 16 and the 8 distances that T5 buckets tell apart exactly
LENGTH = max(LENGTHS)
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-9}
Vector = np.ndarray[Any, Any]
# What a kind does to a pair: the logit and the value, of (q_i, k_j, v_j, i, j, head).
Pair = Callable[[Vector, Vector, Vector, int, int, int], tuple[Any, Vector]]


pytestmark = pytest.mark.usefixtures("double_precision")


def _plain(layer: SelfAttention, causal: bool, root: float) -> Pair:
    return lambda q, k, v, i, j, head: (q @ k / root, v)


def _shaw(layer: SelfAttention, causal: bool, root: float) -> Pair:
    """e_ij = q_i (k_j + a^K_ij) / √d and z_i = Σ α_ij (v_j + a^V_ij), a_ij = w_clip(j-i): eq. 3, 4."""
    assert isinstance(layer.positions, Relative)
    keys, values = layer.positions.keys.detach().numpy(), layer.positions.shifts.detach().numpy()
    assert keys.shape == (2 * CLIP + 1, QK) and values.shape == (2 * CLIP + 1, V)

    def pair(q: Vector, k: Vector, v: Vector, i: int, j: int, head: int) -> tuple[Any, Vector]:
        place = max(-CLIP, min(CLIP, j - i)) + CLIP
        return q @ (k + keys[place]) / root, v + values[place]

    return pair


def _turned(x: Vector, position: int) -> list[complex]:
    """The coordinates m and m + d/2 as one complex number, times e^(i p θ_m), θ_m = 10000^(-2m/d)."""
    half = len(x) // 2
    return [
        complex(x[m], x[m + half]) * cmath.exp(1j * position * 10_000 ** (-2 * m / len(x))) for m in range(half)
    ]


def _rotary(layer: SelfAttention, causal: bool, root: float) -> Pair:
    """Re Σ (q e^(i p θ)) conj(k e^(i r θ)), Su et al. 2021, eq. 12."""

    def pair(q: Vector, k: Vector, v: Vector, i: int, j: int, head: int) -> tuple[Any, Vector]:
        products = (a * b.conjugate() for a, b in zip(_turned(q, i), _turned(k, j), strict=True))
        return sum(products).real / root, v

    return pair


def _alibi(layer: SelfAttention, causal: bool, root: float) -> Pair:
    """q k / √d - m |i - j|; the slopes start at 2^(-8/n) and that is also their ratio."""
    slopes = [(2 ** (-8 / HEADS)) ** (head + 1) for head in range(HEADS)]
    return lambda q, k, v, i, j, head: (q @ k / root - slopes[head] * abs(i - j), v)


def _bucket(behind: int, *, causal: bool, buckets: int = 32, furthest: int = 128) -> int:
    """The bucket of a key that stands so many positions behind the query, found by walking up.

    Beyond half of a side's buckets, bucket number e + b begins at the distance e (f / e)^(b / (n - e)); both
    sides of that comparison are raised to the power n - e, so that it is one of whole numbers.
    """
    first = 0
    if not causal:
        buckets //= 2
        first = buckets if behind < 0 else 0
    distance = max(behind, 0) if causal else abs(behind)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    wide, found = buckets - exact, exact
    for b in range(wide):
        if distance**wide * exact**b >= exact**wide * furthest**b:
            found = exact + b
    return first + found


def _t5(layer: SelfAttention, causal: bool, root: float) -> Pair:
    assert isinstance(layer.positions, T5Buckets)
    table = layer.positions.table.weight.detach().numpy()
    return lambda q, k, v, i, j, head: (q @ k / root + table[_bucket(i - j, causal=causal), head], v)


def _kerple(layer: SelfAttention, causal: bool, root: float) -> Pair:
    """q k / √d - a log(1 + b |i - j|) with a = log(1 + e^raw), b likewise."""
    assert isinstance(layer.positions, Kerple)
    scale, rate = (np.log1p(np.exp(raw.detach().numpy())) for raw in layer.positions.parameters())
    return lambda q, k, v, i, j, head: (q @ k / root - scale[head] * np.log1p(rate[head] * abs(i - j)), v)


KINDS: dict[str, Callable[[SelfAttention, bool, float], Pair]] = {
    "none": _plain,
    "sinusoidal": _plain,
    "learned": _plain,
    "relative": _shaw,
    "rotary": _rotary,
    "alibi": _alibi,
    "t5": _t5,
    "kerple": _kerple,
}


def test_every_kind_has_an_oracle() -> None:
    assert {*KINDS, "syntax"} == set(get_args(PositionName))  # of trees: test_syntax.py


def _by_hand(layer: SelfAttention, pair: Pair, x: Tensor, sees: Callable[[int, int, int], bool]) -> Tensor:
    """Attention of every sentence, head and query in turn; sees(sentence, query, key) is the mask."""
    weight, bias = (part.detach().numpy() for part in layer.query_key_value.parameters())
    packed = x.numpy() @ weight.T + bias
    q, k, v = np.split(packed, [HEADS * QK, 2 * HEADS * QK], axis=-1)
    joined = np.zeros((*x.shape[:2], HEADS * V))
    for b, i, h in np.ndindex(len(x), x.shape[1], HEADS):
        own, values = slice(h * QK, (h + 1) * QK), slice(h * V, (h + 1) * V)
        seen = [j for j in range(x.shape[1]) if sees(b, i, j)]
        pairs = [pair(q[b, i, own], k[b, j, own], v[b, j, values], i, j, h) for j in seen]
        exponentials = [math.exp(logit) for logit, _ in pairs]
        context = sum(e * value for e, (_, value) in zip(exponentials, pairs, strict=True))
        joined[b, i, values] = context / sum(exponentials)
    out: Tensor = layer.output(torch.from_numpy(joined))
    return out.detach()


def _layer(name: Any, *, causal: bool, scaled: bool) -> SelfAttention:
    """The attention that a block of the encoder or of the decoder has."""
    shape = BlockShape(WIDTH, HEADS, QK, V, 8, 0.0, positions=name, scaled=scaled, clip=CLIP)
    layer = (DecoderBlock(shape) if causal else EncoderBlock(shape)).attention
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return layer


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_attention_in_the_encoder_follows_the_equations(name: str, scaled: bool) -> None:
    layer = _layer(name, causal=False, scaled=scaled)
    x, mask = torch.randn(2, LENGTH, WIDTH), lengths_to_mask(torch.tensor(LENGTHS), LENGTH)
    pair = KINDS[name](layer, False, math.sqrt(QK) if scaled else 1.0)
    expected = _by_hand(layer, pair, x, lambda b, i, j: j < LENGTHS[b])
    assert_close(layer(x, mask=mask), expected, **EXACT)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_attention_in_the_decoder_follows_the_equations_whole_and_by_steps(name: str, scaled: bool) -> None:
    layer = _layer(name, causal=True, scaled=scaled)
    x = torch.randn(2, LENGTH, WIDTH)
    pair = KINDS[name](layer, True, math.sqrt(QK) if scaled else 1.0)
    expected = _by_hand(layer, pair, x, lambda b, i, j: j <= i)
    assert_close(layer(x, causal=True), expected, **EXACT)
    past: KeysValues | None = None
    for t in range(LENGTH):
        out, past = layer.step(x[:, t : t + 1], past, torch.full((2, 1), t))
        assert_close(out[:, 0], expected[:, t], **EXACT)


def test_sinusoids_follow_the_formula() -> None:
    width, positions = 10, np.arange(50)
    expected = np.empty((50, width))
    for i in range(width // 2):
        angle = positions / 10_000 ** (2 * i / width)
        expected[:, 2 * i], expected[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
    given = sinusoids(torch.from_numpy(positions), width)
    assert given.numpy() == pytest.approx(expected, abs=1e-10)
    rows = torch.tensor([[3, 7], [0, 49]])
    assert torch.equal(sinusoids(rows, width), given[rows])


def test_rotated_products_depend_on_the_distance_only() -> None:
    layer, q, k = Rotary(), torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)

    def product(query: int, key: int) -> float:
        turned = layer.rotate(q, torch.tensor([query])) * layer.rotate(k, torch.tensor([key]))
        return float(turned.sum())

    for distance in (-4, 0, 1, 30):
        at_start = product(10, 10 + distance)
        assert [product(p, p + distance) for p in (11, 50, 900)] == pytest.approx([at_start] * 3, abs=1e-9)
    assert product(10, 11) != pytest.approx(product(11, 10), abs=1e-3)  # ahead is not behind
    assert product(5, 5) == pytest.approx(float((q * k).sum()))


def test_rotating_keeps_the_length_and_the_origin() -> None:
    x = torch.randn(2, 3, 5, 6)
    turned = Rotary().rotate(x, torch.arange(5))
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], x[:, :, 0])


def test_the_slopes_of_eight_heads_are_those_of_the_paper() -> None:
    bias = Alibi(8).bias(torch.zeros(1, 8, 3, 2), torch.arange(3), 3)
    assert bias.shape == (8, 3, 3)
    for head, slope in enumerate((1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256)):
        expected = [[0, -slope, -2 * slope], [-slope, 0, -slope], [-2 * slope, -slope, 0]]
        assert bias[head].tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("buckets, furthest", [(32, 128), (8, 20)])
@pytest.mark.parametrize("causal", [True, False])
def test_t5_buckets_are_those_of_a_walk_in_whole_numbers(
    causal: bool, buckets: int, furthest: int, dtype: torch.dtype
) -> None:
    torch.set_default_dtype(dtype)
    layer = T5Buckets(1, causal=causal, buckets=buckets, furthest=furthest)
    behind = range(-300, 301)
    expected = [_bucket(n, causal=causal, buckets=buckets, furthest=furthest) for n in behind]
    assert layer.bucket(-torch.tensor(behind)).tolist() == expected
    assert set(expected) == set(range(buckets)) - (set() if causal else {buckets // 2})  # 0 is not ahead
