"""Tokenizers, text normalisation and feature frames."""

from seqloom.text.config import TextConfig
from seqloom.text.frames import FrameReader, read_features
from seqloom.text.normalize import Normalizer
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer

__all__ = [
    "FrameReader",
    "Normalizer",
    "TextConfig",
    "Tokenizer",
    "TokenizerPair",
    "read_features",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
