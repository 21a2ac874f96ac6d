"""Mapping between the weights of Marian models and ours: the same numbers in a different order.

Marian adds sines to the first half of the width and cosines to the second; in seqloom they alternate. The order
of the coordinates of the residual stream is arbitrary as long as all blocks agree. So its D coordinates are
permuted in every weight that reads or writes it, and both models compute the same function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

SHARED = "model.shared.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"

NEVER = -100.0  # output bias of a symbol that is never generated: e^-100 is negligible


class Link(NamedTuple):
    """One of our layers, and the Marian layers whose weights are stacked in it."""

    ours: str
    marian: tuple[str, ...]
    stream_side: Literal["input", "output"]  # the side with the coordinates of the residual stream


_ENCODER = (
    Link("attention.query_key_value", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "input"),
    Link("attention.output", ("self_attn.out_proj",), "output"),
    Link("attention_residual.norm", ("self_attn_layer_norm",), "output"),
    Link("ffn.expand", ("fc1",), "input"),
    Link("ffn.contract", ("fc2",), "output"),
    Link("ffn_residual.norm", ("final_layer_norm",), "output"),
)
_DECODER = (
    *_ENCODER,
    Link("cross.query", ("encoder_attn.q_proj",), "input"),
    Link("cross.key_value", ("encoder_attn.k_proj", "encoder_attn.v_proj"), "input"),
    Link("cross.output", ("encoder_attn.out_proj",), "output"),
    Link("cross_residual.norm", ("encoder_attn_layer_norm",), "output"),
)


def alternating(width: int) -> Tensor:
    """Return Marian's coordinate for each of ours: 0, D/2, 1, D/2 + 1, …"""
    return torch.arange(width).view(2, -1).T.flatten()


def blocks_from_marian(marian: Mapping[str, Tensor], layers: tuple[int, int], width: int) -> dict[str, Tensor]:
    """Return the weights of the encoder and decoder blocks by our names; raise KeyError if one is missing."""
    order = alternating(width)
    return {
        f"{ours}.{part}": _reordered(
            torch.cat([marian[f"{name}.{part}"] for name in names]), part, stream_side, order
        )
        for ours, names, stream_side in _links(layers)
        for part in ("weight", "bias")
    }


def blocks_to_marian(ours: Mapping[str, Tensor], layers: tuple[int, int], width: int) -> dict[str, Tensor]:
    """Return the weights of the encoder and decoder blocks by Marian's names."""
    order = alternating(width).argsort()
    marian: dict[str, Tensor] = {}
    for layer, names, stream_side in _links(layers):
        for part in ("weight", "bias"):
            parts = _reordered(ours[f"{layer}.{part}"], part, stream_side, order).chunk(len(names))
            marian |= {f"{name}.{part}": tensor for name, tensor in zip(names, parts, strict=True)}
    return marian


def embedding_from_marian(table: Tensor, rows: Sequence[int | None]) -> Tensor:
    """Return our table (V, D): the given rows of Marian's table, zeros where a row is None."""
    return _rows(table, rows, 0.0)[:, alternating(table.shape[1])]


def embedding_to_marian(table: Tensor) -> Tensor:
    """Return Marian's table (V, D); the order of the ids does not change."""
    return table[:, alternating(table.shape[1]).argsort()]


def bias_from_marian(bias: Tensor, rows: Sequence[int | None]) -> Tensor:
    """Return our output bias (V,): the given entries of Marian's; a symbol that is new is never generated."""
    return _rows(bias.flatten(), rows, NEVER)


def _links(layers: tuple[int, int]) -> Iterator[Link]:
    """Yield the links of all blocks with full names."""
    for stack, count, links in zip(("encoder", "decoder"), layers, (_ENCODER, _DECODER), strict=True):
        for layer in range(count):
            for ours, marian, stream_side in links:
                names = tuple(f"model.{stack}.layers.{layer}.{name}" for name in marian)
                yield Link(f"{stack}.{layer}.{ours}", names, stream_side)


def _reordered(tensor: Tensor, part: str, stream_side: Literal["input", "output"], order: Tensor) -> Tensor:
    """Return the tensor with the stream coordinates in this order; the inputs are the columns of a matrix."""
    if stream_side == "output":
        return tensor[order]
    return tensor[:, order] if part == "weight" else tensor


def _rows(table: Tensor, rows: Sequence[int | None], missing: float) -> Tensor:
    selected = table[[row or 0 for row in rows]]
    selected[[row is None for row in rows]] = missing
    return selected
