"""Text to word numbers: words stand between white space, as the text is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.statistical.alignment.bitext import Ids

Sentence = list[str]


def read_words(config: DataConfig, report: DataReport) -> Iterator[tuple[Sentence, Sentence]]:
    """The words of both sides of every record, in order; what cannot be read has none and is in the report."""
    given = 0
    for example in read_corpus(config, "train", report):
        for _ in range(given, report.total - 1):  # the reader left these out
            yield [], []
        given = report.total
        yield example.source.split(), (example.target or "").split()
    for _ in range(given, report.total):
        yield [], []


def number(
    sentences: Iterable[tuple[Sentence, Sentence]], *, lowercase: bool = False, letters: int = 0
) -> list[tuple[Ids, Ids]]:
    """The words as numbers per side; in lower case or by their first letters only, if so wanted."""
    known: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def numbers(words: Sentence, known: dict[str, int]) -> Ids:
        if lowercase:
            words = [word.lower() for word in words]
        if letters:
            words = [word[:letters] for word in words]
        return np.fromiter((known.setdefault(word, len(known)) for word in words), np.int32, len(words))

    return [(numbers(source, known[0]), numbers(target, known[1])) for source, target in sentences]
