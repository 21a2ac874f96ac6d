"""n-gram models in the ARPA format: text with log10 probabilities and backoffs, which most tools read.

    \\data\\                        Entries are probability, words and, but for the longest n-grams, backoff,
    ngram 1=4                     with a tab between them and spaces between the words. -99 stands for log 0.
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
_BLOCK = 1 << 16  # lines that are put together at a time
_LONGEST = 1 << 20  # bytes of a line; what is longer is no entry, and falls apart here
_GAP = re.compile(r"[ \t]+")
_COUNT = re.compile(r"ngram (\d{1,9}) *= *(\d{1,18})")


@dataclass(frozen=True)
class Arpa:
    """What an ARPA file says. n-grams are rows of places in `words`."""

    words: list[str]
    orders: list[Entries]


def write_arpa(path: Path, levels: Sequence[Level], names: Sequence[str]) -> None:
    """Writes a model, packed if the path ends with .gz. PAD is no word; every other id has its name."""
    kept = len(levels[0]) - 1
    with (
        gzip.open(path, "wt", encoding="utf-8", newline="\n")
        if path.suffix == ".gz"
        else path.open("w", encoding="utf-8", newline="\n") as file
    ):
        counts = [kept, *(len(level) for level in levels[1:])]
        file.write("\\data\\\n" + "".join(f"ngram {n}={count}\n" for n, count in enumerate(counts, 1)))
        for n, (level, rows) in enumerate(zip(levels, spell(levels), strict=True), 1):
            file.write(f"\n\\{n}-grams:\n")
            for begin in range(0, len(level), _BLOCK):
                file.writelines(_lines(level, rows, slice(begin, begin + _BLOCK), names))
        file.write("\n\\end\\\n")


def _lines(level: Level, rows: NDArray[np.int32], block: slice, names: Sequence[str]) -> Iterator[str]:
    probs = np.maximum(level.log_probs[block].astype(float) / _LN10, NEVER)
    backoffs = (level.backoffs[block].astype(float) / _LN10).tolist()
    ends = [f"\t{value:.8g}\n" for value in backoffs] or ["\n"] * len(probs)
    for row, prob, end in zip(rows[block].tolist(), probs.tolist(), ends, strict=True):
        if row != [PAD]:
            yield f"{prob:.8g}\t{' '.join([names[word] for word in row])}{end}"


def read_arpa(path: Path) -> Arpa:
    """The model in a file, packed or not; what is wrong with it is one sentence with the line."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _Reader(path, file).read()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it ends too early"
        raise SeqloomError(
            f"The ARPA file {path} cannot be read: {reason}.", "check the path and the file"
        ) from error


class _Reader:
    """Reads line by line and knows the number of the line."""

    def __init__(self, path: Path, file: BinaryIO | gzip.GzipFile) -> None:
        self.path, self.file = path, file
        self.number = 0
        self.places: dict[str, int] = {}

    def read(self) -> Arpa:
        counts = self._counts()
        orders = [self._section(n, count, last=n == len(counts)) for n, count in enumerate(counts, 1)]
        if self._next_filled() != "\\end\\":
            raise self._wrong("expected \\end\\ behind the last section")
        return Arpa(list(self.places), orders)

    def _counts(self) -> list[int]:
        """What the head says of the number of n-grams; anything may stand before it."""
        while self._line() != "\\data\\":
            pass
        counts = list[int]()
        while line := self._line():
            found = _COUNT.fullmatch(line)
            if not found or int(found[1]) != len(counts) + 1:
                raise self._wrong(f"expected 'ngram {len(counts) + 1}=COUNT', got {line[:40]!r}")
            counts.append(int(found[2]))
        if not counts or not counts[0]:
            raise self._wrong("the file announces no n-grams")
        return counts

    def _section(self, n: int, count: int, *, last: bool) -> Entries:
        title = f"\\{n}-grams:"
        if (line := self._next_filled()) != title:
            raise self._wrong(f"expected {title}, got {line[:40]!r}")
        words, probs, backoffs = array("i"), array("d"), array("d")
        first = self.number + 1
        for _ in range(count):
            if not (line := self._line()) or line == "\\end\\":
                raise self._wrong(f"{title} has {len(probs):,} entries, and \\data\\ announces {count:,}")
            fields = _GAP.split(line)
            if len(fields) != n + 1 and (last or len(fields) != n + 2):
                rest = "" if last else " and a backoff or none"
                raise self._wrong(f"expected a log probability, {n} word{'s' * (n > 1)}{rest}")
            probs.append(self._number(fields[0], most=0.0))
            words.extend(self._places(n, fields[1 : n + 1]))
            backoffs.append(self._number(fields[n + 1]) if len(fields) == n + 2 else 0.0)
        rows = np.frombuffer(words, np.int32).reshape(count, n)
        return Entries(rows, np.frombuffer(probs) * _LN10, np.frombuffer(backoffs) * _LN10, first)

    def _places(self, n: int, words: list[str]) -> list[int]:
        """The places of words; unigrams are where they come from."""
        if n == 1:
            if words[0] in self.places:
                raise self._wrong(f"the word {words[0]!r} stands here for the second time")
            self.places[words[0]] = len(self.places)
        try:
            return [self.places[word] for word in words]
        except KeyError as error:
            raise self._wrong(f"the word {error.args[0]!r} is not among the 1-grams") from error

    def _number(self, text: str, most: float = math.inf) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not -math.inf < value < math.inf:
            raise self._wrong(f"expected a number, got {text[:40]!r}")
        if value > most:
            raise self._wrong(f"a log probability is not above 0, got {text[:40]!r}")
        return value

    def _next_filled(self) -> str:
        while not (line := self._line()):
            pass
        return line

    def _line(self) -> str:
        """The next line, without what surrounds it."""
        raw = self.file.readline(_LONGEST)
        self.number += 1
        if not raw:
            raise self._wrong(
                "the file ends here, before \\end\\" if self.places else "the file has no \\data\\"
            )
        try:
            return raw.decode("utf-8").strip(" \t\r\n")
        except UnicodeDecodeError as error:
            raise self._wrong("this is not UTF-8") from error

    def _wrong(self, what: str) -> SeqloomError:
        return SeqloomError(
            f"{self.path}, line {self.number}: {what}.",
            "this must be an ARPA file as SRILM or KenLM write them",
        )
