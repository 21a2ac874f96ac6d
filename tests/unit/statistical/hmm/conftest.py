"""Fixtures that make training data from a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seqloom.data.encoding import Numericalizer
from seqloom.data.store import TokenStore
from seqloom.statistical.base import FitData
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example

Pair = tuple[str, str | None]


@pytest.fixture
def fit_data(tmp_path: Path) -> Callable[..., FitData]:
    """Return a function that makes FitData of pairs (or texts, with target None)."""

    def make(train: Sequence[Pair], valid: Sequence[Pair] = (), **text: object) -> FitData:
        config = TextConfig.checked({"tokenizer": "word", "vocab_size": 1000, **text}, "text")
        lines = [(source, target) if target is not None else ("", source) for source, target in train]
        tokenizers = TokenizerPair.train(config, lambda: lines)

        def store(name: str, pairs: Sequence[Pair]) -> TokenStore:
            examples = [Example(*pair, line) for line, pair in enumerate(pairs, 1)]
            return TokenStore.write(
                tmp_path / name, examples, Numericalizer(tokenizers, max_length=100, long="error")
            )

        return FitData(
            tokenizers=tokenizers,
            train=store("train", train),
            valid=store("valid", valid),
            valid_examples=lambda: iter(()),
        )

    return make


class FrameStore:
    """Feature frames and class tokens, with the interface of a TokenStore."""

    def __init__(self, rows: Sequence[tuple[NDArray[np.float32], Sequence[int]]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def source(self, i: int) -> NDArray[np.float32]:
        return self.rows[i][0]

    def target(self, i: int) -> NDArray[np.int64]:
        return np.array(self.rows[i][1], np.int64)


@pytest.fixture
def frame_store() -> type[FrameStore]:
    return FrameStore
