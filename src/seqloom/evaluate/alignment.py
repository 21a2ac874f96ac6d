"""Alignment error rate, precision, recall and F1 of word links against a gold standard; Pharaoh's format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from seqloom.errors import SeqloomError

Link = tuple[int, int]  # source and target position, from 0

_LINK = re.compile(r"(\d{1,9})(-|p|\?)(\d{1,9})", re.ASCII)


class Gold(NamedTuple):
    """What a person linked: surely, and possibly (the sure links among them)."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """Sums over all sentences, and what comes of them (Och & Ney 2003, eqs. 43-45).

    Precision asks of every link whether it is possible, recall of every sure link whether it was found.
    """

    sentences: int = 0
    links: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @property
    def precision(self) -> float:
        return self.found_possible / self.links if self.links else 0.0

    @property
    def recall(self) -> float:
        return self.found_sure / self.sure if self.sure else 0.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def aer(self) -> float:
        """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); nothing linked where nothing should be is no error."""
        total = self.links + self.sure
        return 1 - (self.found_sure + self.found_possible) / total if total else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The shares and the counts they come from."""
        shares = {"aer": self.aer, "precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {**shares, **asdict(self)}


def score_alignment(found: Iterable[Iterable[Sequence[int]]], gold: Iterable[Gold]) -> AlignmentScore:
    """The score of the links of sentences against their gold standard; both must be equally many."""
    sentences = links = sure = found_sure = found_possible = 0
    for row, right in zip(found, gold, strict=True):
        own = {(int(i), int(j)) for i, j in row}
        sentences += 1
        links += len(own)
        sure += len(right.sure)
        found_sure += len(own & right.sure)
        found_possible += len(own & right.possible)
    return AlignmentScore(sentences, links, sure, found_sure, found_possible)


def parse_gold(line: str, *, first: int = 0, where: str = "") -> Gold:
    """The gold links of a line: i-j is sure, ipj or i?j possible; positions count from `first`."""
    sure, possible = set(), set()
    for word in line.split():
        parts = _LINK.fullmatch(word)
        link = (int(parts[1]) - first, int(parts[3]) - first) if parts else (-1, -1)
        if not parts or min(link) < 0:
            raise SeqloomError(
                f"{where or 'The line'} has {word!r}, which is no link.",
                f"write i-j for sure and ipj or i?j for possible links, positions from {first}",
            )
        possible.add(link)
        if parts[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def parse_links(line: str, *, first: int = 0, where: str = "") -> frozenset[Link]:
    """The links of a line in Pharaoh's format, whatever their kind."""
    return parse_gold(line, first=first, where=where).possible


def pharaoh(links: Iterable[Sequence[int]]) -> str:
    """The line of these links: 0-0 1-2 …"""
    return " ".join(f"{i}-{j}" for i, j in links)
