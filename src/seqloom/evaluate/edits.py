"""Edit distance, the token error rates made of it, and exact match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from seqloom import __version__
from seqloom.evaluate.resample import Matrix


def plain_edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that turn a into b (Levenshtein), in plain Python."""
    above = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        row = [i]
        for j, right in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (left != right)))
        above = row
    return above[-1]


edit_distance: Callable[[Sequence[str], Sequence[str]], int] = plain_edit_distance
with suppress(ImportError):  # the extra `fast`: the same number, many times faster on characters
    from rapidfuzz.distance.Levenshtein import distance

    edit_distance = distance


@dataclass(frozen=True)
class ErrorRate:
    """Edits per reference token in percent, the token being a whitespace-separated one or a character."""

    name: str
    label: str
    unit: str  # "space" or "char"
    higher_is_better: bool = False

    def tokens(self, text: str) -> Sequence[str]:
        words = text.split()
        return words if self.unit == "space" else " ".join(words)

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """The distance to the nearest reference and that one's length; of equally near ones the shorter."""
        guess = self.tokens(hypothesis)
        answers = [self.tokens(reference) for reference in references]
        return list(min((edit_distance(guess, answer), len(answer)) for answer in answers))

    def compute(self, total: Matrix) -> float:
        """100 x edits / length; may exceed 100. Where all references are empty, any edit makes it 100."""
        edits, length = map(float, total)
        return 100 * edits / length if length else 100.0 * (edits > 0)

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        facts = {"tok": self.unit, "refs": "nearest"}
        return own_signature(self.name, facts, nrefs=nrefs, bootstrap=bootstrap, seed=seed)


@dataclass(frozen=True)
class ExactMatch:
    """The share of sentences in percent that equal one of their references, or, as an error, that do not.

    Runs of white space are one space and the ends are trimmed, unless white space counts.
    """

    name: str
    label: str
    higher_is_better: bool  # False: count the wrong ones
    raw: bool = False  # white space counts: indentation and line breaks must be right, too

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return whether this sentence counts (0 or 1), and 1."""
        right = self._compared(hypothesis) in map(self._compared, references)
        return [float(right == self.higher_is_better), 1.0]

    def _compared(self, text: str) -> str:
        return text if self.raw else " ".join(text.split())

    def compute(self, total: Matrix) -> float:
        counted, sentences = map(float, total)
        return 100 * counted / sentences

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        facts = {"case": "mixed", **({"space": "raw"} if self.raw else {}), "refs": "any"}
        return own_signature(self.name, facts, nrefs=nrefs, bootstrap=bootstrap, seed=seed)


def own_signature(name: str, facts: dict[str, str], *, nrefs: int | None, bootstrap: int, seed: int) -> str:
    """name|key:value|..., in the manner of sacreBLEU, for the metrics that are not its own."""
    sampled = {"bs": str(bootstrap), "seed": str(seed)} if bootstrap else {}
    pairs = {"nrefs": "var" if nrefs is None else str(nrefs), **sampled, **facts}
    return "|".join(
        [name, *(f"{key}:{value}" for key, value in pairs.items()), f"version:seqloom-{__version__}"]
    )
