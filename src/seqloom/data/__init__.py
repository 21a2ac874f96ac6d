"""Data pipeline from files to batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import lazily

__all__ = ["DataConfig", "DataReport", "Example", "TokenStore", "collate_ids", "read_conllu", "read_corpus"]

if TYPE_CHECKING:
    from seqloom.data.batching import collate_ids
    from seqloom.data.config import DataConfig
    from seqloom.data.readers import read_corpus
    from seqloom.data.report import DataReport
    from seqloom.data.store import TokenStore
    from seqloom.data.syntax import read_conllu
    from seqloom.types import Example

__getattr__, __dir__ = lazily(
    "seqloom.data",
    {
        "DataConfig": "seqloom.data.config",
        "DataReport": "seqloom.data.report",
        "Example": "seqloom.types",
        "TokenStore": "seqloom.data.store",
        "collate_ids": "seqloom.data.batching",
        "read_conllu": "seqloom.data.syntax",
        "read_corpus": "seqloom.data.readers",
    },
)
