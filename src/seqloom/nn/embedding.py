"""Source and target embeddings and the output layer, with optional weight tying."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor, nn

from seqloom.errors import SeqloomError, require_known
from seqloom.types import Vocabularies

Tie = Literal["auto", "all", "target", "none"]


class FrameEmbedding(nn.Linear):
    """x W + b for frames (B, S, F), in place of an embedding of ids; b is initialised to 0."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__(features, width)
        nn.init.zeros_(self.bias)

    def forward(self, frames: Tensor) -> Tensor:
        """Return (B, S, D)."""
        return super().forward(frames.to(self.weight.dtype))


def embeddings_and_output(
    vocabularies: Vocabularies, width: int, tie: Tie, hidden: int | None = None
) -> tuple[nn.Embedding | FrameEmbedding, nn.Embedding | FrameEmbedding, nn.Linear]:
    """Return source embedding (of ids or of frames), target embedding and output layer.

    For targets that are vectors, the target embedding is a linear layer, and the output layer has one number
    more than a vector: the logit of the end.

    `all` ties all three (both sides must share one tokenizer), `target` ties target embedding and output layer,
    `auto` ties as many as the vocabularies allow (Press & Wolf 2017). `hidden` is the input width of the output
    layer; if it differs from the embedding width, the output layer is not tied.
    """
    require_known("tie", tie, get_args(Tie))
    hidden = hidden or width
    if tie == "all" and not vocabularies.shared:
        raise SeqloomError(
            "model.tie=all needs one tokenizer for both sides, but this run has one per side.",
            "set text.joint=true, or model.tie=target",
        )
    source = _embedding_of_sources(vocabularies, width)
    is_text = vocabularies.outputs == "tokens"
    target = (nn.Embedding if is_text else FrameEmbedding)(vocabularies.target, width)
    output = nn.Linear(hidden, vocabularies.target + (0 if is_text else 1))
    for embedding in (source, target):
        _initialise(embedding)
    nn.init.zeros_(output.bias)
    if tie != "none" and hidden == width and is_text:
        output.weight = target.weight
    if tie == "all" or (tie == "auto" and vocabularies.shared):
        source = target
    return source, target, output


def source_embedding(vocabularies: Vocabularies, width: int) -> nn.Embedding | FrameEmbedding:
    """Return the source embedding, of ids or of frames, for models without a target embedding."""
    embedding = _embedding_of_sources(vocabularies, width)
    _initialise(embedding)
    return embedding


def _embedding_of_sources(vocabularies: Vocabularies, width: int) -> nn.Embedding | FrameEmbedding:
    return (FrameEmbedding if vocabularies.features else nn.Embedding)(vocabularies.source, width)


def _initialise(embedding: nn.Embedding | FrameEmbedding) -> None:
    """Draw vectors with a norm of about 1; features of frames have variance 1."""
    features = embedding.in_features if isinstance(embedding, FrameEmbedding) else 1
    width = embedding.out_features if isinstance(embedding, FrameEmbedding) else embedding.embedding_dim
    nn.init.normal_(embedding.weight, std=(features * width) ** -0.5)
