"""Alignment error rate, precision, recall and F1 of word alignments against a gold standard; Pharaoh format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from seqloom.errors import SeqloomError

Link = tuple[int, int]  # source and target position, from 0

_LINK = re.compile(r"(\d{1,9})(-|p|\?)(\d{1,9})", re.ASCII)


class Gold(NamedTuple):
    """Gold alignment of a sentence: sure links, and possible links, which include the sure ones."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """Counts over all sentences, and the rates computed from them (Och & Ney 2003, eqs. 43-45).

    Precision is the share of found links that are possible; recall is the share of sure links that are found.
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
        """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 if there are neither links nor sure links."""
        total = self.links + self.sure
        return 1 - (self.found_sure + self.found_possible) / total if total else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the rates and the counts from which they are computed."""
        rates = {"aer": self.aer, "precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {**rates, **asdict(self)}


def score_alignment(found: Iterable[Iterable[Sequence[int]]], gold: Iterable[Gold]) -> AlignmentScore:
    """Return the score of each sentence's links against its gold standard, summed over all sentences."""
    sentences = links = sure = found_sure = found_possible = 0
    for sentence, reference in zip(found, gold, strict=True):
        predicted = {(int(i), int(j)) for i, j in sentence}
        sentences += 1
        links += len(predicted)
        sure += len(reference.sure)
        found_sure += len(predicted & reference.sure)
        found_possible += len(predicted & reference.possible)
    return AlignmentScore(sentences, links, sure, found_sure, found_possible)


def parse_gold(line: str, *, first: int = 0, where: str = "") -> Gold:
    """Return the gold links of a line: i-j is sure, ipj or i?j is possible; positions start at `first`."""
    sure, possible = set(), set()
    for word in line.split():
        parts = _LINK.fullmatch(word)
        link = (int(parts[1]) - first, int(parts[3]) - first) if parts else (-1, -1)
        if not parts or min(link) < 0:
            raise SeqloomError(
                f"{where or 'The line'} contains {word!r}, which is not a link.",
                f"write i-j for sure links and ipj or i?j for possible links, with positions from {first}",
            )
        possible.add(link)
        if parts[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def parse_links(line: str, *, first: int = 0, where: str = "") -> frozenset[Link]:
    """Return all links of a line in Pharaoh format, both sure and possible."""
    return parse_gold(line, first=first, where=where).possible


def pharaoh(links: Iterable[Sequence[int]]) -> str:
    """Return these links in Pharaoh format, e.g. 0-0 1-2."""
    return " ".join(f"{i}-{j}" for i, j in links)
