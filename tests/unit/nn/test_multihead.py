from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from seqloom.nn import multihead
from seqloom.nn.attention import attend
from seqloom.nn.multihead import AttentionHeads, CrossAttention, SelfAttention
from seqloom.nn.positions import Relative, attention_positions
from seqloom.types import lengths_to_mask

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
WIDTHS = pytest.mark.parametrize("qk_width, v_width", [(4, 4), (6, 3), (1, 5)])
SCALED = pytest.mark.parametrize("scaled", [True, False])


def _at(t: int) -> Tensor:
    return torch.full((3, 1), t)


def _steps(layer: SelfAttention, x: Tensor) -> Tensor:
    past, outputs = None, []
    for t in range(x.shape[1]):
        output, past = layer.step(x[:, t : t + 1], past, torch.full((len(x), 1), t))
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def test_heads_are_split_and_joined() -> None:
    heads, x = AttentionHeads(3, 4, 4, scaled=True), torch.randn(2, 5, 12)
    parts = heads.split(x)
    assert torch.equal(parts[:, 1, 2], x[:, 2, 4:8])
    assert torch.equal(heads.join(parts), x)


@WIDTHS
@SCALED
def test_the_fused_path_equals_the_readable_one(qk_width: int, v_width: int, scaled: bool) -> None:
    heads = AttentionHeads(2, qk_width, v_width, scaled=scaled)
    q, k = torch.randn(3, 2, 5, qk_width).double() * 2, torch.randn(3, 2, 7, qk_width).double()
    v, mask = torch.randn(3, 2, 7, v_width).double(), torch.rand(3, 1, 5, 7) > 0.5
    mask[..., 2] = True
    for allowed in (None, mask):
        readable, _ = attend(heads.scores(q, k), v, allowed)
        assert readable.shape == (3, 2, 5, v_width)
        assert_close(heads.fused(q, k, v, allowed), readable, **EXACT)


@WIDTHS
@SCALED
def test_self_attention_by_kernel_by_formula_and_by_steps(qk_width: int, v_width: int, scaled: bool) -> None:
    fused = SelfAttention(8, 2, qk_width, v_width, scaled=scaled).double()
    silent = Relative(qk_width, v_width, clip=2, scaled=scaled)  # selects the formula and adds nothing
    for weight in silent.parameters():
        torch.nn.init.zeros_(weight)
    formula = SelfAttention(8, 2, qk_width, v_width, scaled=scaled, positions=silent).double()
    formula.load_state_dict(fused.state_dict(), strict=False)
    x, mask = torch.randn(3, 6, 8).double() * 2, lengths_to_mask(torch.tensor([6, 2, 4]), 6)
    assert_close(formula(x, mask=mask), fused(x, mask=mask), **EXACT)
    assert_close(formula(x, causal=True), fused(x, causal=True), **EXACT)
    assert_close(_steps(fused, x), fused(x, causal=True), **EXACT)


@WIDTHS
@SCALED
def test_cross_attention_by_kernel_and_by_steps(qk_width: int, v_width: int, scaled: bool) -> None:
    layer = CrossAttention(8, 2, qk_width, v_width, scaled=scaled).double()
    x, source = torch.randn(3, 4, 8).double() * 2, torch.randn(3, 7, 8).double()
    mask = lengths_to_mask(torch.tensor([5, 1, 7]), 7)
    memory = layer.project_kv(source)
    assert [part.shape for part in memory] == [(3, 2, 7, qk_width), (3, 2, 7, v_width)]
    stepped, weights = layer.step(x.reshape(12, 1, 8), memory, mask)
    assert_close(stepped.view(3, 4, 8), layer(x, memory, mask), **EXACT)
    assert (weights.view(3, 4, 2, 7).masked_select(~mask[:, None, None, :]) == 0).all()


@SCALED
def test_unscaled_scores_are_larger_by_the_root_of_the_width(scaled: bool) -> None:
    heads, q, k = AttentionHeads(1, 9, 2, scaled=scaled), torch.randn(1, 1, 2, 9), torch.randn(1, 1, 3, 9)
    assert_close(heads.scores(q, k), q @ k.mT / (3 if scaled else 1))


@pytest.mark.parametrize("name", ["none", "rotary", "alibi", "t5", "relative"])
def test_the_kernel_is_used_if_no_weights_are_needed(name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = attention_positions(name, 2, 4, 4, causal=True, scaled=True, clip=2)
    layer, readable = SelfAttention(8, 2, 4, 4, positions=positions), Mock(side_effect=attend)
    monkeypatch.setattr(multihead, "attend", readable)
    layer(torch.randn(3, 5, 8), causal=True)
    layer(torch.randn(3, 5, 8), mask=torch.ones(3, 5, dtype=torch.bool))
    assert readable.call_count == (2 if name == "relative" else 0)


def test_the_cache_is_extended_but_not_changed() -> None:
    layer = SelfAttention(8, 2, 4, 3)
    _, first = layer.step(torch.randn(3, 1, 8), None, _at(0))
    keys, values = first.keys.clone(), first.values.clone()
    _, second = layer.step(torch.randn(3, 1, 8), first, _at(1))
    assert [part.shape for part in (second.keys, second.values)] == [(3, 2, 2, 4), (3, 2, 2, 3)]
    assert torch.equal(first.keys, keys) and torch.equal(first.values, values)
    assert torch.equal(second.keys[:, :, :1], keys) and torch.equal(second.values[:, :, :1], values)


def test_the_rows_of_a_sentence_share_its_memory() -> None:
    layer = CrossAttention(8, 2, 4, 4)
    source, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    memory = layer.project_kv(source)
    x = torch.randn(6, 1, 8)  # three hypotheses for each of two sentences
    together, _ = layer.step(x, memory, mask)
    wide = tuple(part.repeat_interleave(3, dim=0) for part in memory)
    apart, _ = layer.step(x, (wide[0], wide[1]), mask.repeat_interleave(3, dim=0))
    assert_close(together, apart)
