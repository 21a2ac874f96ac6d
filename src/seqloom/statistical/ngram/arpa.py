"""Reading and writing n-gram models in the ARPA format: text with log10 probabilities and backoff weights.

    \\data\\                        An entry is a probability, the words and, except in the last section, a
    ngram 1=4                     backoff weight, separated by tabs, with spaces between words. -99 is log 0.
    \\1-grams:
    -0.8    the     -0.3
    ...
    \\end\\
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.statistical.ngram.assembly import Entries
from seqloom.statistical.ngram.levels import Level, spell
from seqloom.types import PAD

NEVER = -99.0
_LN10 = math.log(10)
_BLOCK = 1 << 16  # lines formatted at a time
_MAX_LINE = 1 << 20  # bytes; a longer line is cut, and its parts are rejected as entries
_SEPARATOR = re.compile(r"[ \t]+")
_COUNT = re.compile(r"ngram (\d{1,9}) *= *(\d{1,18})")


@dataclass(frozen=True)
class Arpa:
    """The contents of an ARPA file. n-grams are rows of indices into `words`."""

    words: list[str]
    orders: list[Entries]


def write_arpa(path: Path, levels: Sequence[Level], names: Sequence[str]) -> None:
    """Write a model, compressed if the path ends with .gz. PAD is left out; every other id needs a name."""
    unigrams = len(levels[0]) - 1
    with (
        gzip.open(path, "wt", encoding="utf-8", newline="\n")
        if path.suffix == ".gz"
        else path.open("w", encoding="utf-8", newline="\n") as file
    ):
        counts = [unigrams, *(len(level) for level in levels[1:])]
        file.write("\\data\\\n" + "".join(f"ngram {n}={count}\n" for n, count in enumerate(counts, 1)))
        for n, (level, rows) in enumerate(zip(levels, spell(levels), strict=True), 1):
            file.write(f"\n\\{n}-grams:\n")
            for start in range(0, len(level), _BLOCK):
                file.writelines(_lines(level, rows, slice(start, start + _BLOCK), names))
        file.write("\n\\end\\\n")


def _lines(level: Level, rows: NDArray[np.int32], block: slice, names: Sequence[str]) -> Iterator[str]:
    probs = np.maximum(level.log_probs[block].astype(float) / _LN10, NEVER)
    backoffs = (level.backoffs[block].astype(float) / _LN10).tolist()
    ends = [f"\t{value:.8g}\n" for value in backoffs] or ["\n"] * len(probs)
    for row, prob, end in zip(rows[block].tolist(), probs.tolist(), ends, strict=True):
        if row != [PAD]:
            yield f"{prob:.8g}\t{' '.join([names[word] for word in row])}{end}"


def read_arpa(path: Path) -> Arpa:
    """Read a model, compressed or not; errors name the line."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _ArpaReader(path, file).read()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it is truncated"
        raise SeqloomError(
            f"Cannot read the ARPA file {path}: {reason}.", "check the path and the file"
        ) from error


class _ArpaReader:
    """Line-by-line reader that keeps track of the line number."""

    def __init__(self, path: Path, file: BinaryIO | gzip.GzipFile) -> None:
        self.path, self.file = path, file
        self.number = 0
        self.indices: dict[str, int] = {}

    def read(self) -> Arpa:
        counts = self._counts()
        orders = [self._section(n, count, last=n == len(counts)) for n, count in enumerate(counts, 1)]
        if self._next_nonempty() != "\\end\\":
            raise self._error("expected \\end\\ after the last section")
        return Arpa(list(self.indices), orders)

    def _counts(self) -> list[int]:
        """Read the n-gram counts of the header; any text may precede it."""
        while self._line() != "\\data\\":
            pass
        counts = list[int]()
        while line := self._line():
            match = _COUNT.fullmatch(line)
            if not match or int(match[1]) != len(counts) + 1:
                raise self._error(f"expected 'ngram {len(counts) + 1}=COUNT', got {line[:40]!r}")
            counts.append(int(match[2]))
        if not counts or not counts[0]:
            raise self._error("the header lists no n-grams")
        return counts

    def _section(self, n: int, count: int, *, last: bool) -> Entries:
        title = f"\\{n}-grams:"
        if (line := self._next_nonempty()) != title:
            raise self._error(f"expected {title}, got {line[:40]!r}")
        words, probs, backoffs = array("i"), array("d"), array("d")
        first = self.number + 1
        for _ in range(count):
            if not (line := self._line()) or line == "\\end\\":
                raise self._error(f"{title} has {len(probs):,} entries, but the header lists {count:,}")
            fields = _SEPARATOR.split(line)
            if len(fields) != n + 1 and (last or len(fields) != n + 2):
                backoff = "" if last else " and an optional backoff weight"
                raise self._error(f"expected a log probability, {n} word{'s' * (n > 1)}{backoff}")
            probs.append(self._number(fields[0], maximum=0.0))
            words.extend(self._word_indices(n, fields[1 : n + 1]))
            backoffs.append(self._number(fields[n + 1]) if len(fields) == n + 2 else 0.0)
        rows = np.frombuffer(words, np.int32).reshape(count, n)
        return Entries(rows, np.frombuffer(probs) * _LN10, np.frombuffer(backoffs) * _LN10, first)

    def _word_indices(self, n: int, words: list[str]) -> list[int]:
        """Return the indices of words; unigrams define them."""
        if n == 1:
            if words[0] in self.indices:
                raise self._error(f"duplicate word {words[0]!r}")
            self.indices[words[0]] = len(self.indices)
        try:
            return [self.indices[word] for word in words]
        except KeyError as error:
            raise self._error(f"the word {error.args[0]!r} is not among the 1-grams") from error

    def _number(self, text: str, maximum: float = math.inf) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not -math.inf < value < math.inf:
            raise self._error(f"expected a number, got {text[:40]!r}")
        if value > maximum:
            raise self._error(f"expected a log probability of at most 0, got {text[:40]!r}")
        return value

    def _next_nonempty(self) -> str:
        while not (line := self._line()):
            pass
        return line

    def _line(self) -> str:
        """Return the next line without surrounding white space."""
        raw = self.file.readline(_MAX_LINE)
        self.number += 1
        if not raw:
            raise self._error(
                "the file ends here, before \\end\\" if self.indices else "the file has no \\data\\ header"
            )
        try:
            return raw.decode("utf-8").strip(" \t\r\n")
        except UnicodeDecodeError as error:
            raise self._error("not valid UTF-8") from error

    def _error(self, problem: str) -> SeqloomError:
        return SeqloomError(
            f"{self.path}, line {self.number}: {problem}.",
            "the file must be in ARPA format, as written by SRILM or KenLM",
        )
