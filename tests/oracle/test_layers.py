"""Our layers against torch's, with copied weights, and the positions against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from seqloom.nn.attention import CrossAttention, SelfAttention, attend, dot_scores, join_heads, split_heads
from seqloom.nn.blocks import DecoderBlock, EncoderBlock
from seqloom.nn.positions import sinusoids
from seqloom.types import lengths_to_mask

WIDTH, HEADS, FFN = 12, 3, 20
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
LENGTHS = torch.tensor([5, 2, 7])


@pytest.fixture(autouse=True)
def _double() -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    yield
    torch.set_default_dtype(torch.float32)


def _copy(ours: nn.Module, theirs: nn.Module, names: dict[str, str]) -> None:
    """Gives our layer the weights of theirs, ours by the prefix of their name."""
    state = {}
    for mine, other in names.items():
        for kind in ("weight", "bias"):
            state[f"{mine}.{kind}"] = theirs.get_parameter(f"{other}.{kind}").detach()
    missing = ours.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys


def _copy_self(ours: SelfAttention, theirs: nn.MultiheadAttention) -> None:
    ours.query_key_value.weight.data = theirs.in_proj_weight.detach().clone()
    ours.query_key_value.bias.data = theirs.in_proj_bias.detach().clone()
    _copy(ours, theirs, {"output": "out_proj"})


def _copy_cross(ours: CrossAttention, theirs: nn.MultiheadAttention) -> None:
    for kind in ("weight", "bias"):
        packed = getattr(theirs, f"in_proj_{kind}").detach()
        getattr(ours.query, kind).data = packed[:WIDTH].clone()
        getattr(ours.key_value, kind).data = packed[WIDTH:].clone()
    _copy(ours, theirs, {"output": "out_proj"})


def _multihead() -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    nn.init.normal_(theirs.in_proj_bias)  # torch starts it at zero, which would hide a forgotten bias
    nn.init.normal_(theirs.out_proj.bias)
    return theirs


def _causal(size: int) -> Tensor:
    """In torch's words: True where a position may not look."""
    return torch.ones(size, size, dtype=torch.bool).triu(1)


def test_attend_is_scaled_dot_product_attention() -> None:
    q, k, v = torch.randn(2, HEADS, 4, 5), torch.randn(2, HEADS, 6, 5), torch.randn(2, HEADS, 6, 5)
    mask = torch.rand(2, 1, 4, 6) > 0.4
    mask[..., 0] = True
    context, weights = attend(dot_scores(q, k), v, mask)
    assert_close(context, scaled_dot_product_attention(q, k, v, attn_mask=mask), **EXACT)
    assert not weights.masked_select(~mask).any()
    assert_close(dot_scores(q, k, scaled=False), torch.einsum("bhtd,bhsd->bhts", q, k), **EXACT)


def test_heads_are_split_and_joined() -> None:
    x = torch.randn(2, 4, WIDTH)
    heads = split_heads(x, HEADS)
    assert torch.equal(heads[:, 1, 2], x[:, 2, 4:8])
    assert torch.equal(join_heads(heads), x)


def test_self_attention_is_multihead_attention() -> None:
    theirs, ours = _multihead(), SelfAttention(WIDTH, HEADS)
    _copy_self(ours, theirs)
    x, mask = torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    expected, _ = theirs(x, x, x, key_padding_mask=~mask)
    assert_close(ours(x, mask=mask), expected, **EXACT)
    expected, _ = theirs(x, x, x, attn_mask=_causal(7))
    assert_close(ours(x, causal=True), expected, **EXACT)
    past, outputs = None, []
    for t in range(7):
        output, past = ours.step(x[:, t : t + 1], past)
        outputs.append(output)
    assert_close(torch.cat(outputs, dim=1), expected, **EXACT)


def test_cross_attention_is_multihead_attention() -> None:
    theirs, ours = _multihead(), CrossAttention(WIDTH, HEADS)
    _copy_cross(ours, theirs)
    x, source, mask = torch.randn(3, 4, WIDTH), torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    expected, weights = theirs(x, source, source, key_padding_mask=~mask, average_attn_weights=False)
    memory = ours.remember(source)
    assert_close(ours(x, memory, mask), expected, **EXACT)
    # Four hypotheses a sentence are what four positions are: as many queries to one memory.
    output, stepped = ours.step(x.reshape(12, 1, WIDTH), memory, mask)
    assert_close(output.view(3, 4, WIDTH), expected, **EXACT)
    assert_close(stepped.view(3, 4, HEADS, 7).transpose(1, 2), weights, **EXACT)


def test_the_encoder_block_is_torchs_encoder_layer() -> None:
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, FFN, dropout=0.0, batch_first=True, norm_first=True)
    ours = EncoderBlock(WIDTH, HEADS, FFN, dropout=0.0)
    _randomise(theirs)
    _copy_self(ours.attention, theirs.self_attn)
    _copy(
        ours,
        theirs,
        {"attention_norm": "norm1", "ffn_norm": "norm2", "ffn.expand": "linear1", "ffn.contract": "linear2"},
    )
    x, mask = torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    assert_close(ours(x, mask)[mask], theirs(x, src_key_padding_mask=~mask)[mask], **EXACT)


def test_the_decoder_block_is_torchs_decoder_layer() -> None:
    theirs = nn.TransformerDecoderLayer(WIDTH, HEADS, FFN, dropout=0.0, batch_first=True, norm_first=True)
    ours = DecoderBlock(WIDTH, HEADS, FFN, dropout=0.0)
    _randomise(theirs)
    _copy_self(ours.attention, theirs.self_attn)
    _copy_cross(ours.cross, theirs.multihead_attn)
    norms = {"attention_norm": "norm1", "cross_norm": "norm2", "ffn_norm": "norm3"}
    _copy(ours, theirs, {**norms, "ffn.expand": "linear1", "ffn.contract": "linear2"})
    x, source, mask = torch.randn(3, 4, WIDTH), torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    expected = theirs(x, source, tgt_mask=_causal(4), memory_key_padding_mask=~mask)
    assert_close(ours(x, source, mask), expected, **EXACT)


def _randomise(layer: nn.Module) -> None:
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.3)


def test_positions_follow_the_formula() -> None:
    width, positions = 10, np.arange(50)
    expected = np.empty((50, width))
    for i in range(width // 2):
        angle = positions / 10_000 ** (2 * i / width)
        expected[:, 2 * i], expected[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
    given = sinusoids(torch.from_numpy(positions), width)
    assert given.numpy() == pytest.approx(expected, abs=2e-5)  # angles up to 50 in single precision
    rows = torch.tensor([[3, 7], [0, 49]])
    assert torch.equal(sinusoids(rows, width), given[rows])
