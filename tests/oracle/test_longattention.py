"""Attention for long inputs against full attention with a dense mask that loops over pairs of positions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from seqloom.nn.longattention import (
    DRAWS,
    BlockSparseAttention,
    CausalBlockAttention,
    CausalWindowAttention,
    LinformerAttention,
    WindowAttention,
)
from seqloom.nn.masks import Visibility
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import AttentionPositions, Rotary
from seqloom.types import lengths_to_mask

SHAPE = (12, 3, 4, 6)  # width, heads, d_qk, d_v
LENGTHS = (37, 5, 1, 24, 16)
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}


pytestmark = pytest.mark.usefixtures("double_precision")


def _dense(layer: SelfAttention, x: Tensor, visible: Tensor) -> Tensor:
    """The layer's weights in the textbook formula over one sentence (n, D); visible (n, n)."""
    width = layer.heads * layer.qk_width
    q, k, v = layer.query_key_value(x).split([width, width, layer.heads * layer.v_width], dim=-1)
    contexts = []
    for head in range(layer.heads):
        d, e = layer.qk_width, layer.v_width
        at = torch.arange(len(x))
        query, key = (
            layer.positions.rotate(part[None, None, :, head * d : (head + 1) * d], at)[0, 0] for part in (q, k)
        )
        scores = query @ key.T / math.sqrt(d)
        weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
        contexts.append(weights @ v[:, head * e : (head + 1) * e])
    joined: Tensor = layer.output(torch.cat(contexts, dim=-1))
    return joined


def _drawn(layer: BlockSparseAttention, query: int, blocks: int) -> list[int]:
    """The random blocks of a block: picked one after the other from a list of those that it does not see."""
    pool = [
        block
        for block in range(query + 1 if layer.causal else blocks)
        if block >= layer.global_blocks and abs(block - query) > layer.neighbours
    ]
    numbers = layer.draws[query % DRAWS].tolist()
    return [pool.pop(number % len(pool)) for number in numbers if pool]


def _bigbird_sees(layer: BlockSparseAttention, length: int) -> Tensor:
    """(n, n): BigBird's pattern for a sentence of that length, pair by pair."""
    blocks, g = math.ceil(length / layer.block), layer.global_blocks
    visible = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        drawn = _drawn(layer, i // layer.block, blocks)
        for j in range(i + 1 if layer.causal else length):
            query, key = i // layer.block, j // layer.block
            visible[i, j] = query < g or key < g or abs(query - key) <= layer.neighbours or key in drawn
    return visible


def _window_sees(window: int, length: int, *, causal: bool = False) -> Tensor:
    band = torch.tensor([[abs(i - j) <= window for j in range(length)] for i in range(length)])
    return band.tril() if causal else band


def _check(layer: SelfAttention, sees: Any, *, causal: bool = False) -> None:
    """Output and gradient of every sentence of a padded batch are those of the dense formula."""
    x = torch.randn(len(LENGTHS), max(LENGTHS), SHAPE[0], requires_grad=True)
    out = layer(x, mask=lengths_to_mask(torch.tensor(LENGTHS), max(LENGTHS)), causal=causal)
    for row, length in enumerate(LENGTHS):
        dense = _dense(layer, x[row, :length], sees(length))
        assert_close(out[row, :length], dense, **EXACT)
        goal = torch.randn_like(dense)
        (ours,) = torch.autograd.grad((out[row, :length] * goal).sum(), x, retain_graph=True)
        (theirs,) = torch.autograd.grad((dense * goal).sum(), x)
        assert_close(ours, theirs, **EXACT)


over_patterns = pytest.mark.parametrize(
    "block, neighbours, global_blocks, random_blocks",
    [(4, 1, 0, 0), (4, 1, 1, 0), (4, 1, 0, 2), (4, 1, 2, 3), (3, 2, 1, 1), (1, 1, 1, 1), (5, 0, 0, 1)],
)


@pytest.mark.parametrize("positions", [None, Rotary()])
@over_patterns
def test_bigbird_is_full_attention_under_its_dense_mask(
    block: int, neighbours: int, global_blocks: int, random_blocks: int, positions: AttentionPositions | None
) -> None:
    layer = BlockSparseAttention(
        *SHAPE,
        block=block,
        neighbours=neighbours,
        global_blocks=global_blocks,
        random_blocks=random_blocks,
        seed=3,
        positions=positions,
    )
    assert not layer.sees_all(max(LENGTHS))
    assert not _bigbird_sees(layer, max(LENGTHS)).all()
    _check(layer, lambda length: _bigbird_sees(layer, length))


@pytest.mark.parametrize("positions", [None, Rotary()])
@over_patterns
def test_causal_bigbird_is_full_attention_under_its_dense_mask(
    block: int, neighbours: int, global_blocks: int, random_blocks: int, positions: AttentionPositions | None
) -> None:
    layer = CausalBlockAttention(
        *SHAPE,
        block=block,
        neighbours=neighbours,
        global_blocks=global_blocks,
        random_blocks=random_blocks,
        seed=3,
        positions=positions,
    )
    _check(layer, lambda length: _bigbird_sees(layer, length), causal=True)
    assert torch.equal(
        layer.visibility(torch.ones(1, 37, dtype=torch.bool), causal=True)[0] > 0, _bigbird_sees(layer, 37)
    )
    query, keys = torch.arange(37).unsqueeze(1), torch.arange(37).expand(37, -1)
    assert torch.equal(layer.sees(query, keys), _bigbird_sees(layer, 37))


@pytest.mark.parametrize("window, block", [(0, 4), (3, 4), (9, 4), (7, 1), (2, 16)])
def test_a_causal_window_is_full_attention_under_half_a_band(window: int, block: int) -> None:
    layer = CausalWindowAttention(*SHAPE, window=window, block=block)
    _check(layer, lambda length: _window_sees(window, length, causal=True), causal=True)
    query, keys = torch.arange(37).unsqueeze(1), torch.arange(37).expand(37, -1)
    assert torch.equal(layer.sees(query, keys), _window_sees(window, 37, causal=True))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block, global_blocks, random_blocks", [(64, 1, 2), (32, 2, 3), (64, 0, 5)])
def test_random_blocks_are_different_and_not_seen_otherwise(
    block: int, global_blocks: int, random_blocks: int, causal: bool
) -> None:
    kind = CausalBlockAttention if causal else BlockSparseAttention
    blocks, starts = 512 // block, set()
    for seed in range(20):
        layer = kind(*SHAPE, block=block, global_blocks=global_blocks, random_blocks=random_blocks, seed=seed)
        codes = layer.visibility(torch.ones(1, 512, dtype=torch.bool), causal=causal)[0, ::block, ::block]
        for query in range(global_blocks, blocks):
            last = query if causal else blocks - 1
            near = [key for key in range(blocks) if key <= last and abs(key - query) <= 1]
            others = last + 1 - len({*near, *range(global_blocks)})
            drawn = (codes[query] == Visibility.RANDOM).nonzero().flatten().tolist()
            assert len(drawn) == min(random_blocks, others)
            assert not {*near, *range(global_blocks)} & {*drawn}
            starts |= {(query, key) for key in drawn}
    possible = sum(
        key >= global_blocks and abs(key - query) > 1 and (key < query or not causal)
        for query in range(global_blocks, blocks)
        for key in range(blocks)
    )
    assert len(starts) > 0.9 * possible  # every other block can be drawn


@pytest.mark.parametrize("window, block", [(0, 4), (1, 4), (3, 4), (4, 4), (9, 4), (7, 1), (2, 16), (35, 8)])
def test_a_window_is_full_attention_under_a_band(window: int, block: int) -> None:
    layer = WindowAttention(*SHAPE, window=window, block=block)
    assert not layer.sees_all(max(LENGTHS))
    _check(layer, lambda length: _window_sees(window, length))


@pytest.mark.parametrize(
    "layer",
    [
        WindowAttention(*SHAPE, window=36, block=4),
        WindowAttention(*SHAPE, window=100, block=64),
        BlockSparseAttention(*SHAPE, block=4, neighbours=9),
        BlockSparseAttention(*SHAPE, block=4, neighbours=1, global_blocks=8),
        BlockSparseAttention(*SHAPE, block=64, random_blocks=2),
    ],
)
def test_what_reaches_everywhere_is_full_attention(layer: SelfAttention) -> None:
    layer.double()
    _check(layer, lambda length: torch.ones(length, length, dtype=torch.bool))


def test_blocks_that_see_all_others_are_full_attention_by_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockSparseAttention, "sees_all", lambda self, length: False)
    layer = BlockSparseAttention(*SHAPE, block=4, neighbours=9, global_blocks=1, random_blocks=2)
    _check(layer, lambda length: torch.ones(length, length, dtype=torch.bool))


@pytest.mark.parametrize("neighbours, global_blocks", [(1, 0), (1, 1), (2, 3), (0, 0), (0, 2)])
def test_the_short_way_is_taken_only_where_all_is_seen(neighbours: int, global_blocks: int) -> None:
    layer = BlockSparseAttention(*SHAPE, block=2, neighbours=neighbours, global_blocks=global_blocks)
    for length in range(1, 20):
        assert layer.sees_all(length) == bool(_bigbird_sees(layer, length).all()), length
    window = WindowAttention(*SHAPE, window=neighbours, block=2)
    for length in range(1, 20):
        assert window.sees_all(length) == bool(_window_sees(neighbours, length).all()), length


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("per_head", [False, True])
def test_linformer_is_its_formula(per_head: bool, separate: bool) -> None:
    layer = LinformerAttention(*SHAPE, rank=5, max_length=40, per_head=per_head, separate=separate)
    E, F = layer.projection, layer.value_projection if separate else layer.projection
    assert F is not None
    x = torch.randn(len(LENGTHS), max(LENGTHS), SHAPE[0])
    out = layer(x, mask=lengths_to_mask(torch.tensor(LENGTHS), max(LENGTHS)))
    _, heads, d, e = SHAPE
    for row, length in enumerate(LENGTHS):
        q, k, v = layer.query_key_value(x[row, :length]).split([heads * d, heads * d, heads * e], dim=-1)
        contexts = []
        for head in range(heads):
            matrices = (part[head if per_head else 0, :, :length] / math.sqrt(length) for part in (E, F))
            e_matrix, f_matrix = matrices
            keys = e_matrix @ k[:, head * d : (head + 1) * d]  # (r, d)
            values = f_matrix @ v[:, head * e : (head + 1) * e]
            weights = (q[:, head * d : (head + 1) * d] @ keys.T / math.sqrt(d)).softmax(-1)
            contexts.append(weights @ values)
        assert_close(out[row, :length], layer.output(torch.cat(contexts, dim=-1)), **EXACT)
