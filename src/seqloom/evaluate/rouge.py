"""ROUGE-1, ROUGE-2 and ROUGE-L, the overlap of a summary with its reference (Lin, 2004).

Words are sequences of a-z and 0-9 in lower case, without stemming, as in the package rouge-score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seqloom.evaluate.resample import Matrix
from seqloom.evaluate.sentence_metric import SentenceMetric, own_signature

_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Rouge(SentenceMetric):
    """Mean F1 over sentences in percent; of several references, the one with the highest F1 counts."""

    size: int | None = None  # of the n-grams; None: longest common subsequence (ROUGE-L)

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return the F1 of a sentence, and 1."""
        predicted = _WORD.findall(hypothesis.lower())
        return [max(self._f1(predicted, _WORD.findall(text.lower())) for text in references), 1.0]

    def _f1(self, predicted: list[str], expected: list[str]) -> float:
        """Return 2 PR / (P + R) = 2 x common / (number in the output + number in the reference)."""
        if self.size is None:
            common, total = common_subsequence(predicted, expected), len(predicted) + len(expected)
        else:
            left, right = ngrams(predicted, self.size), ngrams(expected, self.size)
            common, total = (left & right).total(), left.total() + right.total()
        return 2 * common / total if common else 0.0

    def compute(self, total: Matrix) -> float:
        scores, sentences = map(float, total)
        return 100 * scores / sentences

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        facts = {"f": "1", "case": "lc", "tok": "a-z0-9", "stem": "no", "refs": "best"}
        return own_signature(self.name, facts, nrefs=nrefs, bootstrap=bootstrap, seed=seed)


def ngrams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    """Return how often each n-gram occurs."""
    return Counter(zip(*(words[start:] for start in range(size)), strict=False))


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    above = [0] * (len(b) + 1)
    for left in a:
        row = [0]
        for j, right in enumerate(b, start=1):
            row.append(above[j - 1] + 1 if left == right else max(above[j], row[-1]))
        above = row
    return above[-1]
