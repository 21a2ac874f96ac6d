"""Our layers against torch's, with copied weights, and against the formulas of their papers."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from seqloom.nn.attention import attend, dot_scores
from seqloom.nn.blocks import Activation, BlockShape, DecoderBlock, EncoderBlock, FeedForward, make_norm
from seqloom.nn.multihead import CrossAttention, KeysValues, SelfAttention
from seqloom.types import lengths_to_mask

WIDTH, HEADS, FFN = 12, 3, 20
HEAD = WIDTH // HEADS
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
LENGTHS = torch.tensor([5, 2, 7])
TORCHS = pytest.mark.parametrize(
    "place, activation", [("before", "relu"), ("before", "gelu"), ("after", "relu"), ("after", "gelu")]
)


pytestmark = pytest.mark.usefixtures("double_precision")


def _shape(**choices: Any) -> BlockShape:
    sizes = {"width": WIDTH, "heads": HEADS, "qk_width": HEAD, "v_width": HEAD, "ffn": FFN, "dropout": 0.0}
    return BlockShape(**{**sizes, **choices})


def _randomise(layer: nn.Module) -> None:
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.3)


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


def _places(rows: int, length: int) -> list[Tensor]:
    """The position (R, 1) of each step."""
    return [torch.full((rows, 1), t) for t in range(length)]


def test_attend_is_scaled_dot_product_attention() -> None:
    q, k, v = torch.randn(2, HEADS, 4, 5), torch.randn(2, HEADS, 6, 5), torch.randn(2, HEADS, 6, 5)
    mask = torch.rand(2, 1, 4, 6) > 0.4
    mask[..., 0] = True
    context, weights = attend(dot_scores(q, k), v, mask)
    assert_close(context, scaled_dot_product_attention(q, k, v, attn_mask=mask), **EXACT)
    assert not weights.masked_select(~mask).any()
    assert_close(dot_scores(q, k, scaled=False), torch.einsum("bhtd,bhsd->bhts", q, k), **EXACT)


def test_self_attention_is_multihead_attention() -> None:
    theirs, ours = _multihead(), SelfAttention(WIDTH, HEADS, HEAD, HEAD)
    _copy_self(ours, theirs)
    x, mask = torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    expected, _ = theirs(x, x, x, key_padding_mask=~mask)
    assert_close(ours(x, mask=mask), expected, **EXACT)
    expected, _ = theirs(x, x, x, attn_mask=_causal(7))
    assert_close(ours(x, causal=True), expected, **EXACT)
    past: KeysValues | None = None
    outputs = []
    for t, at in enumerate(_places(3, 7)):
        output, past = ours.step(x[:, t : t + 1], past, at)
        outputs.append(output)
    assert_close(torch.cat(outputs, dim=1), expected, **EXACT)


def test_attention_without_bias_is_multihead_attention_without_bias() -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True)
    ours, cross = (kind(WIDTH, HEADS, HEAD, HEAD, bias=False) for kind in (SelfAttention, CrossAttention))
    packed = theirs.in_proj_weight.detach()
    for layer in (ours, cross):
        assert [name for name, _ in layer.named_parameters() if "bias" in name] == []
        layer.output.weight.data = theirs.out_proj.weight.detach().clone()
    ours.query_key_value.weight.data = packed.clone()
    cross.query.weight.data, cross.key_value.weight.data = packed[:WIDTH].clone(), packed[WIDTH:].clone()
    x, source, mask = torch.randn(3, 4, WIDTH), torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    assert_close(ours(x, causal=True), theirs(x, x, x, attn_mask=_causal(4))[0], **EXACT)
    expected, _ = theirs(x, source, source, key_padding_mask=~mask)
    assert_close(cross(x, cross.project_kv(source), mask), expected, **EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_raw_weights_are_the_scaled_products(causal: bool) -> None:
    """z_i = Σ_j (q_i·k_j / √d) v_j over the visible j, without a softmax."""
    layer = SelfAttention(WIDTH, HEADS, HEAD, HEAD, weights="raw")
    _randomise(layer)
    x = torch.randn(3, 7, WIDTH)
    q, k, v = layer.query_key_value(x).detach().numpy().reshape(3, 7, 3, HEADS, HEAD).transpose(2, 0, 3, 1, 4)
    context = np.zeros((3, 7, HEADS, HEAD))
    for b, h, i in np.ndindex(3, HEADS, 7):
        visible = range(min(i + 1, LENGTHS[b]) if causal else LENGTHS[b])
        for j in visible:
            context[b, i, h] += q[b, h, i] @ k[b, h, j] / math.sqrt(HEAD) * v[b, h, j]
    expected = layer.output(torch.tensor(context.reshape(3, 7, WIDTH)))
    mask = lengths_to_mask(LENGTHS, 7)
    assert_close(layer(x, mask=mask, causal=causal), expected, **EXACT)


def test_cross_attention_is_multihead_attention() -> None:
    theirs, ours = _multihead(), CrossAttention(WIDTH, HEADS, HEAD, HEAD)
    _copy_cross(ours, theirs)
    x, source, mask = torch.randn(3, 4, WIDTH), torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    expected, weights = theirs(x, source, source, key_padding_mask=~mask, average_attn_weights=False)
    memory = ours.project_kv(source)
    assert_close(ours(x, memory, mask), expected, **EXACT)
    # Four hypotheses a sentence are what four positions are: as many queries to one memory.
    output, stepped = ours.step(x.reshape(12, 1, WIDTH), memory, mask)
    assert_close(output.view(3, 4, WIDTH), expected, **EXACT)
    assert_close(stepped.view(3, 4, HEADS, 7).transpose(1, 2), weights, **EXACT)


@TORCHS
def test_the_encoder_block_is_torchs_encoder_layer(place: str, activation: str) -> None:
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, FFN, dropout=0.0, activation=activation, batch_first=True, norm_first=place == "before"
    )
    ours = EncoderBlock(_shape(norm_place=place, activation=activation))
    _randomise(theirs)
    _copy_self(ours.attention, theirs.self_attn)
    norms = {"attention_residual.norm": "norm1", "ffn_residual.norm": "norm2"}
    _copy(ours, theirs, {**norms, "ffn.expand": "linear1", "ffn.contract": "linear2"})
    x, mask = torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    assert_close(ours(x, mask)[mask], theirs(x, src_key_padding_mask=~mask)[mask], **EXACT)


@TORCHS
def test_the_decoder_block_is_torchs_decoder_layer(place: str, activation: str) -> None:
    theirs = nn.TransformerDecoderLayer(
        WIDTH, HEADS, FFN, dropout=0.0, activation=activation, batch_first=True, norm_first=place == "before"
    )
    ours = DecoderBlock(_shape(norm_place=place, activation=activation))
    _randomise(theirs)
    _copy_self(ours.attention, theirs.self_attn)
    _copy_cross(ours.cross, theirs.multihead_attn)
    norms = {"attention_residual.norm": "norm1", "cross_residual.norm": "norm2", "ffn_residual.norm": "norm3"}
    _copy(ours, theirs, {**norms, "ffn.expand": "linear1", "ffn.contract": "linear2"})
    x, source, mask = torch.randn(3, 4, WIDTH), torch.randn(3, 7, WIDTH), lengths_to_mask(LENGTHS, 7)
    expected = theirs(x, source, tgt_mask=_causal(4), memory_key_padding_mask=~mask)
    assert_close(ours(x, source, mask), expected, **EXACT)
    past: KeysValues | None = None
    for t, at in enumerate(_places(3, 4)):
        out, past, _ = ours.step(x[:, t : t + 1], past, at, ours.cross.project_kv(source), mask)
        assert_close(out[:, 0], expected[:, t], **EXACT)


@pytest.mark.parametrize("place", ["before", "after", "none"])
@pytest.mark.parametrize("residual", [True, False])
def test_norm_and_residual_stand_where_the_names_say(place: str, residual: bool) -> None:
    block = EncoderBlock(_shape(norm_place=place, residual=residual))
    _randomise(block)
    x, mask = torch.randn(2, 5, WIDTH), torch.ones(2, 5, dtype=torch.bool)
    expected = x
    layers: dict[str, Any] = {"attention": lambda x: block.attention(x, mask=mask), "ffn": block.ffn}
    for name, layer in layers.items():
        norm = getattr(block, f"{name}_residual").norm
        out = layer(norm(expected) if place == "before" else expected)
        out = expected + out if residual else out
        expected = norm(out) if place == "after" else out
    assert_close(block(x, mask), expected, **EXACT)


def test_without_an_activation_there_is_no_feed_forward() -> None:
    block = EncoderBlock(_shape(activation="none"))
    x, mask = torch.randn(2, 5, WIDTH), torch.ones(2, 5, dtype=torch.bool)
    assert_close(block(x, mask), x + block.attention(block.attention_residual.norm(x), mask=mask), **EXACT)
    assert not any(name.startswith("ffn") for name, _ in block.named_parameters())


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_the_norms_follow_their_formulas(name: Any) -> None:
    norm = make_norm(name, WIDTH)
    _randomise(norm)
    x = torch.randn(3, WIDTH) * 4 + 2
    rows = x.numpy()
    if name == "layer":  # Ba et al. 2016, eq. 4
        mean = rows.mean(axis=-1, keepdims=True)
        expected = (rows - mean) / np.sqrt(((rows - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-5)
        expected = expected * norm.get_parameter("weight").detach().numpy()
        expected = expected + norm.get_parameter("bias").detach().numpy()
    else:  # Zhang & Sennrich 2019, eq. 4
        expected = rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-6)
        expected = expected * norm.get_parameter("weight").detach().numpy()
        assert len(list(norm.parameters())) == 1  # a gain and no bias
    assert norm(x).detach().numpy() == pytest.approx(expected, abs=1e-10)


def _by_hand(activation: str, first: Any) -> Any:
    """What the first matrix of the feed-forward becomes, (..., FFN)."""
    if activation == "relu":
        return np.maximum(first, 0)
    if activation == "gelu":  # x Φ(x), Hendrycks & Gimpel 2016
        return first * (1 + np.vectorize(math.erf)(first / math.sqrt(2))) / 2
    if activation == "silu":  # x σ(x), Elfwing et al. 2018
        return first / (1 + np.exp(-first))
    gate, value = first[..., :FFN], first[..., FFN:]  # Shazeer 2020, eq. 6: Swish₁(xW) ⊙ xV
    return gate / (1 + np.exp(-gate)) * value


@pytest.mark.parametrize("activation", [name for name in get_args(Activation) if name != "none"])
def test_the_feed_forward_follows_its_formula(activation: Any) -> None:
    layer = FeedForward(WIDTH, FFN, activation, dropout=0.0)
    _randomise(layer)
    x = torch.randn(4, WIDTH)
    weights = {name: weight.detach().numpy() for name, weight in layer.named_parameters()}
    first = x.numpy() @ weights["expand.weight"].T + weights["expand.bias"]
    expected = _by_hand(activation, first) @ weights["contract.weight"].T + weights["contract.bias"]
    assert layer(x).detach().numpy() == pytest.approx(expected, abs=1e-10)
