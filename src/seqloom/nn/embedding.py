"""Embeddings and the output layer, and which of the three share one matrix."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor, nn

from seqloom.errors import SeqloomError, require_known
from seqloom.types import Vocabularies

Tie = Literal["auto", "all", "target", "none"]


class FrameEmbedding(nn.Linear):
    """x W + b of frames (B, S, F): stands where the embedding of ids stands, and begins with b = 0."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__(features, width)
        nn.init.zeros_(self.bias)

    def forward(self, frames: Tensor) -> Tensor:
        """(B, S, D)."""
        return super().forward(frames.to(self.weight.dtype))


def embeddings_and_output(
    vocabularies: Vocabularies, width: int, tie: Tie, hidden: int | None = None
) -> tuple[nn.Embedding | FrameEmbedding, nn.Embedding, nn.Linear]:
    """Source embedding (of ids, or of frames if the source is these), target embedding and output layer.

    `all` ties the three (both sides must share one tokenizer), `target` ties target and output, `auto` ties
    as many as the vocabularies allow (Press & Wolf 2017). `hidden` is the width that the output layer sees,
    if it is not that of the embeddings; then it has a matrix of its own.
    """
    require_known("tie", tie, get_args(Tie))
    hidden = hidden or width
    if tie == "all" and not vocabularies.shared:
        raise SeqloomError(
            "model.tie=all needs one tokenizer for both sides, and this run has one per side.",
            "set text.joint=true, or model.tie=target",
        )
    of_source = FrameEmbedding if vocabularies.features else nn.Embedding
    source: nn.Embedding | FrameEmbedding = of_source(vocabularies.source, width)
    target = nn.Embedding(vocabularies.target, width)
    output = nn.Linear(hidden, vocabularies.target)
    for embedding in (source, target):
        # Frames have a variance of 1 a feature, so their vectors begin as long as those of ids.
        features = vocabularies.source if isinstance(embedding, FrameEmbedding) else 1
        nn.init.normal_(embedding.weight, std=(features * width) ** -0.5)
    nn.init.zeros_(output.bias)
    if tie != "none" and hidden == width:
        output.weight = target.weight
    if tie == "all" or (tie == "auto" and vocabularies.shared):
        source = target
    return source, target, output
