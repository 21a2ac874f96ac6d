"""Words, separated by white space, and their conversion to ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.statistical.alignment.bitext import Ids

Sentence = list[str]


def read_words(config: DataConfig, report: DataReport) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield the words of both sides of every record, in order; unreadable ones are empty and reported."""
    done = 0
    for example in read_corpus(config, "train", report):
        for _ in range(done, report.total - 1):  # skipped by the reader
            yield [], []
        done = report.total
        yield example.source.split(), (example.target or "").split()
    for _ in range(done, report.total):
        yield [], []


def words_to_ids(
    sentences: Iterable[tuple[Sentence, Sentence]], *, lowercase: bool = False, letters: int = 0
) -> list[tuple[Ids, Ids]]:
    """Convert words to ids, separately for each side; optionally lowercased or cut to their first letters."""
    vocabularies: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def ids(words: Sentence, vocabulary: dict[str, int]) -> Ids:
        if lowercase:
            words = [word.lower() for word in words]
        if letters:
            words = [word[:letters] for word in words]
        return np.fromiter(
            (vocabulary.setdefault(word, len(vocabulary)) for word in words), np.int32, len(words)
        )

    return [(ids(source, vocabularies[0]), ids(target, vocabularies[1])) for source, target in sentences]
