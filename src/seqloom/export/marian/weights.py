"""The weights of a Marian model by its names and by ours: the same numbers in another order.

Marian adds sines to the first half of the width and cosines to the second; we let them alternate. Which
coordinate is which is free in the stream that all blocks read from and add to, as long as all agree. So its D
coordinates are put into our order wherever a weight touches it, and both models compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

SHARED = "model.shared.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"

NEVER = -100.0  # the output bias of a symbol that is no answer: e^-100 is nothing beside any other


class Link(NamedTuple):
    """A layer of ours, and the layers of Marian's block that it is made of, one below the other."""

    ours: str
    theirs: tuple[str, ...]
    touches: Literal["input", "output"]  # the side that has the coordinates of the stream


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
    """For each of our coordinates Marian's: 0, D/2, 1, D/2 + 1, …"""
    return torch.arange(width).view(2, -1).T.flatten()


def blocks_from_marian(theirs: Mapping[str, Tensor], layers: tuple[int, int], width: int) -> dict[str, Tensor]:
    """The weights of encoder and decoder blocks by our names; raises KeyError for one that is missing."""
    order = alternating(width)
    return {
        f"{ours}.{part}": _reordered(
            torch.cat([theirs[f"{name}.{part}"] for name in names]), part, touches, order
        )
        for ours, names, touches in _links(layers)
        for part in ("weight", "bias")
    }


def blocks_to_marian(ours: Mapping[str, Tensor], layers: tuple[int, int], width: int) -> dict[str, Tensor]:
    """The weights of encoder and decoder blocks by Marian's names."""
    order = alternating(width).argsort()
    theirs: dict[str, Tensor] = {}
    for own, names, touches in _links(layers):
        for part in ("weight", "bias"):
            parts = _reordered(ours[f"{own}.{part}"], part, touches, order).chunk(len(names))
            theirs |= {f"{name}.{part}": tensor for name, tensor in zip(names, parts, strict=True)}
    return theirs


def embedding_from_marian(table: Tensor, rows: Sequence[int | None]) -> Tensor:
    """(V, D): the given rows of Marian's table, zeros where there is none."""
    return _rows(table, rows, 0.0)[:, alternating(table.shape[1])]


def embedding_to_marian(table: Tensor) -> Tensor:
    """(V, D): our table; the ids stay."""
    return table[:, alternating(table.shape[1]).argsort()]


def bias_from_marian(bias: Tensor, rows: Sequence[int | None]) -> Tensor:
    """(V,): the given numbers of Marian's output bias; what is new is no answer."""
    return _rows(bias.flatten(), rows, NEVER)


def _links(layers: tuple[int, int]) -> Iterator[Link]:
    """The links of all blocks, by full names."""
    for stack, count, links in zip(("encoder", "decoder"), layers, (_ENCODER, _DECODER), strict=True):
        for layer in range(count):
            for ours, theirs, touches in links:
                names = tuple(f"model.{stack}.layers.{layer}.{name}" for name in theirs)
                yield Link(f"{stack}.{layer}.{ours}", names, touches)


def _reordered(tensor: Tensor, part: str, touches: Literal["input", "output"], order: Tensor) -> Tensor:
    """The tensor with the coordinates of the stream in that order; an input side is the columns of a matrix."""
    if touches == "output":
        return tensor[order]
    return tensor[:, order] if part == "weight" else tensor


def _rows(table: Tensor, rows: Sequence[int | None], missing: float) -> Tensor:
    made = table[[row or 0 for row in rows]]
    made[[row is None for row in rows]] = missing
    return made
