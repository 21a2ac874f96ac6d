"""The lines of a corpus to clean, a survey of them, and parts of equal size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import NamedTuple

from seqloom.cleaning.rule import Pair, Violation
from seqloom.data.config import DataConfig
from seqloom.data.readers import has_features, is_conllu, read_corpus
from seqloom.data.report import DataReport, clean
from seqloom.data.shards import check_rereadable, corpora
from seqloom.errors import SeqloomError
from seqloom.types import Example

SAMPLE = 10_000  # pairs that show what is usual in the corpus
_SEED = 1


class Dropped(NamedTuple):
    """A dropped line and why."""

    example: Example
    rule: str
    finding: Violation


class _UnusableLines(DataReport):
    """A report that hands over the lines that readers drop, instead of keeping the first ones."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Dropped] = []

    def drop(self, example: Example, reason: str) -> None:
        rule = "empty" if reason.startswith("empty") else "malformed"
        self._waiting.append(Dropped(example, rule, Violation(reason)))

    def skip(self, example: Example, reason: str, languages: str = "") -> None:
        self._waiting.append(Dropped(example, "skipped", Violation(reason)))

    def take(self) -> list[Dropped]:
        """Return the lines that were dropped since the last call."""
        taken, self._waiting = self._waiting, []
        return taken


def check_cleanable(config: DataConfig) -> None:
    """Raise an error unless the data is pairs of text in files that can be read twice."""
    if config.format == "text":
        raise SeqloomError(
            "Plain text has no pairs to clean.", "give a table of pairs, or --source and --target"
        )
    if config.is_text or "," in (config.target_column or ""):
        raise SeqloomError("Cleaning needs one source and one target column.", "name one --target-column")
    for side in (config.source, config.target):
        if side is not None and is_conllu(side):
            raise SeqloomError(
                f"{side} is CoNLL-U, and its trees would be lost.", "give a text file or a table"
            )
    check_rereadable(chain.from_iterable(corpora(config, "train")))
    if has_features(config):
        raise SeqloomError("The sources are files of features, not text.", "give pairs of text")


def read_lines(config: DataConfig) -> Iterator[Example | Dropped]:
    """Yield every line in the order of the corpus: a pair with text on both sides, or why it is none."""
    report = _UnusableLines()
    for example in clean(read_corpus(config, "train", report), report):
        yield from report.take()
        yield example
    yield from report.take()


def pair_of(example: Example) -> Pair:
    """Return the source and the target of an example that has both."""
    assert example.target is not None
    return example.source, example.target


@dataclass
class Survey:
    """What one pass over the corpus shows."""

    lines: int = 0
    pairs: int = 0
    sample: list[Pair] = field(default_factory=list)  # uniform, see `add`
    _random: Random = field(default_factory=lambda: Random(_SEED))

    def add(self, line: Example | Dropped) -> None:
        """Count a line; keep it with the probability that makes the sample uniform (reservoir sampling)."""
        self.lines += 1
        if isinstance(line, Dropped):
            return
        self.pairs += 1
        if len(self.sample) < SAMPLE:
            self.sample.append(pair_of(line))
        elif (place := self._random.randrange(self.pairs)) < SAMPLE:
            self.sample[place] = pair_of(line)


def parts(lines: Iterable[Example | Dropped], pairs: int, most: int) -> Iterator[list[Example | Dropped]]:
    """Yield the lines in as few parts of equal size as possible, with at most `most` pairs each."""
    count = max(1, -(-pairs // most))
    size = max(1, -(-pairs // count))
    part: list[Example | Dropped] = []
    room = size
    for line in lines:
        part.append(line)
        room -= isinstance(line, Example)
        if not room:
            yield part
            part, room = [], size
    if part:
        yield part
