"""Edit distance, the token error rates based on it, and exact match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from seqloom.evaluate.resample import Matrix
from seqloom.evaluate.sentence_metric import SentenceMetric, own_signature


def plain_edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the Levenshtein distance: the fewest insertions, deletions and substitutions to turn a into b."""
    above = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        row = [i]
        for j, right in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (left != right)))
        above = row
    return above[-1]


edit_distance: Callable[[Sequence[str], Sequence[str]], int] = plain_edit_distance
with suppress(ImportError):  # the extra `fast`: the same result, many times faster on characters
    from rapidfuzz.distance.Levenshtein import distance

    edit_distance = distance


@dataclass(frozen=True)
class ErrorRate(SentenceMetric):
    """Edits per reference token in percent; tokens are separated by white space, or characters."""

    higher_is_better: bool = False
    unit: str = "space"  # or "char"

    def tokens(self, text: str) -> Sequence[str]:
        words = text.split()
        return words if self.unit == "space" else " ".join(words)

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return the distance to the nearest reference and its length; ties go to the shorter one."""
        predicted = self.tokens(hypothesis)
        expected = [self.tokens(reference) for reference in references]
        return list(min((edit_distance(predicted, tokens), len(tokens)) for tokens in expected))

    def compute(self, total: Matrix) -> float:
        """Return 100 x edits / length, which may exceed 100; for empty references, 100 if there is any edit."""
        edits, length = map(float, total)
        return 100 * edits / length if length else 100.0 * (edits > 0)

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        facts = {"tok": self.unit, "refs": "nearest"}
        return own_signature(self.name, facts, nrefs=nrefs, bootstrap=bootstrap, seed=seed)


@dataclass(frozen=True)
class ExactMatch(SentenceMetric):
    """Percentage of sentences that equal one of their references or, for an error rate, that do not.

    Runs of white space count as one space and the ends are trimmed, unless `raw` is set.
    """

    # higher_is_better=False: count the wrong sentences
    raw: bool = False  # white space must match, too: indentation and line breaks

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return whether this sentence counts (0 or 1), and 1."""
        is_correct = self._normalised(hypothesis) in map(self._normalised, references)
        return [float(is_correct == self.higher_is_better), 1.0]

    def _normalised(self, text: str) -> str:
        return text if self.raw else " ".join(text.split())

    def compute(self, total: Matrix) -> float:
        counted, sentences = map(float, total)
        return 100 * counted / sentences

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        facts = {"case": "mixed", **({"space": "raw"} if self.raw else {}), "refs": "any"}
        return own_signature(self.name, facts, nrefs=nrefs, bootstrap=bootstrap, seed=seed)
