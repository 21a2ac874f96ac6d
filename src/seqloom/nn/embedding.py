"""Embeddings and the output layer, and which of the three share one matrix."""

from __future__ import annotations

from typing import Literal

from torch import nn

from seqloom.errors import SeqloomError
from seqloom.types import Vocabularies

Tie = Literal["auto", "all", "target", "none"]


def embeddings_and_output(
    vocabularies: Vocabularies, width: int, tie: Tie, hidden: int | None = None
) -> tuple[nn.Embedding, nn.Embedding, nn.Linear]:
    """Source embedding, target embedding and output layer.

    `all` ties the three (both sides must share one tokenizer), `target` ties target and output, `auto` ties
    as many as the vocabularies allow (Press & Wolf 2017). `hidden` is the width that the output layer sees,
    if it is not that of the embeddings; then it has a matrix of its own.
    """
    hidden = hidden or width
    if tie == "all" and not vocabularies.shared:
        raise SeqloomError(
            "model.tie=all needs one tokenizer for both sides, and this run has one per side.",
            "set text.joint=true, or model.tie=target",
        )
    source = nn.Embedding(vocabularies.source, width)
    target = nn.Embedding(vocabularies.target, width)
    output = nn.Linear(hidden, vocabularies.target)
    for embedding in (source, target):
        nn.init.normal_(embedding.weight, std=width**-0.5)
    nn.init.zeros_(output.bias)
    if tie != "none" and hidden == width:
        output.weight = target.weight
    if tie == "all" or (tie == "auto" and vocabularies.shared):
        source = target
    return source, target, output
