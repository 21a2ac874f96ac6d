"""Embeddings of a vocabulary: their projection to a plane, and the nearest neighbours of a token."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.inspect.translation import rounded
from seqloom.run.load import LoadedRun
from seqloom.settings import Settings
from seqloom.text.frames import FrameReader
from seqloom.types import UNK

VERSION = 1  # of the document


class EmbeddingsOptions(Settings):
    """A vocabulary, and a token whose neighbours are listed."""

    side: Literal["source", "target"] = Field("source", description="vocabulary: source or target")
    token: str | None = Field(None, description="token whose neighbours are listed")
    count: int = Field(
        400, ge=3, le=5000, description="number of tokens in the picture, those with the lowest ids"
    )
    neighbours: int = Field(10, ge=1, le=100, description="number of neighbours")
    checkpoint: str | None = Field(None, description="name of the checkpoint; None = the best one")


def has_embeddings(opened: LoadedRun) -> bool:
    """Return whether the model has an embedding of source and of target tokens."""
    names = ("source_embedding", "target_embedding")
    return not opened.tokenizers.frames and all(
        isinstance(getattr(opened.model, name, None), nn.Embedding) for name in names
    )


@torch.inference_mode()
def embeddings(opened: LoadedRun, options: EmbeddingsOptions) -> dict[str, Any]:
    """Return the first two principal components of the embeddings of all tokens, and neighbours by cosine."""
    if not has_embeddings(opened):
        raise SeqloomError(
            f"The model {opened.config.model.name} has no embeddings of both sides.",
            "use a neural model that translates",
        )
    assert isinstance(opened.model, nn.Module)
    tokenizer = opened.tokenizers.reader if options.side == "source" else opened.tokenizers.target
    table = opened.model.get_submodule(f"{options.side}_embedding")
    assert isinstance(table, nn.Embedding)
    first = UNK + 1
    ids = range(first, tokenizer.size)
    vectors = table.weight.detach().double().cpu()[first : tokenizer.size]  # (V, D), without special tokens
    points, shares = _principal_components(vectors)
    assert not isinstance(tokenizer, FrameReader)
    tokens = list(tokenizer.pieces(ids))
    return {
        "view": "embeddings",
        "version": VERSION,
        "side": options.side,
        "vocabulary": len(tokens),
        "explained": [rounded(value) for value in shares.tolist()],
        "tokens": tokens[: options.count],
        "points": [[rounded(value) for value in point] for point in points[: options.count].tolist()],
        "token": options.token,
        "neighbours": _neighbours(vectors, points, tokens, options),
    }


def _principal_components(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the coordinates (V, 2) of the vectors, and the shares of their variance on both axes."""
    centred = vectors - vectors.mean(dim=0)
    values, axes = torch.linalg.eigh(centred.T @ centred)
    plane = axes[:, [-1, -2]]
    largest = plane.abs().argmax(dim=0)
    plane = plane * plane[largest, [0, 1]].sign()  # an axis has no direction of its own
    return centred @ plane, values[[-1, -2]] / values.sum()


def _neighbours(
    vectors: Tensor, points: Tensor, tokens: list[str], options: EmbeddingsOptions
) -> list[dict[str, Any]]:
    """Return the tokens with the largest cosine to a token, which comes first itself."""
    if options.token is None:
        return []
    if options.token not in tokens:
        raise SeqloomError(
            f"{options.token!r} is not a token of the {options.side} vocabulary.",
            "spell it as in the output of the model, e.g. with ▁ at the beginning of a word",
        )
    own = vectors[tokens.index(options.token)]
    cosines = torch.nn.functional.cosine_similarity(vectors, own.unsqueeze(0))
    order = cosines.argsort(descending=True, stable=True)[: options.neighbours + 1].tolist()
    return [
        {
            "token": tokens[place],
            "cosine": rounded(float(cosines[place])),
            "point": [rounded(value) for value in points[place].tolist()],
        }
        for place in order
    ]
