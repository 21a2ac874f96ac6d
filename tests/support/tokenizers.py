"""Tokenizers of single characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair


def char_tokenizers(source: str, target: str, *, symbols: Sequence[str] = (), **options: Any) -> TokenizerPair:
    """Train a pair of tokenizers that know the characters of two texts."""
    config = TextConfig(tokenizer="char", byte_fallback=False, **options)
    return TokenizerPair.train(config, lambda: [(source, target)] * 20, symbols=tuple(symbols))
