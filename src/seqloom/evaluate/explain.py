"""BLEU taken apart: matched n-grams, precisions and brevity penalty of one line and of the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import Metric
from seqloom.evaluate.sacre import SacreMetric

ORDER = 4


@dataclass(frozen=True)
class BleuParts:
    """BLEU = brevity penalty x geometric mean of the precisions."""

    score: float
    matches: list[int]  # n = 1 to 4
    totals: list[int]
    precisions: list[float]  # in percent; a zero is smoothed
    brevity_penalty: float
    length: int  # tokens of the output
    reference_length: int  # tokens of the closest reference


@dataclass(frozen=True)
class BleuExplanation:
    """BLEU of one line and of the corpus."""

    number: int
    output: list[str]  # tokens
    references: list[list[str]]
    matched: list[dict[str, int]]  # n = 1 to 4: the matched n-grams and how often they count
    line: BleuParts
    corpus: BleuParts

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        """Return the explanation as plain text."""
        rows = [f"line {self.number}", f"  output     {' '.join(self.output)}"]
        rows += [f"  reference  {' '.join(reference)}" for reference in self.references]
        for n, grams in enumerate(self.matched, 1):
            found = ", ".join(gram if count == 1 else f"{gram} (x {count})" for gram, count in grams.items())
            rows.append(f"  matched {n}-grams: {found or 'none'}")
        for name, parts in (("line", self.line), ("corpus", self.corpus)):
            shares = zip(parts.matches, parts.totals, parts.precisions, strict=True)
            rows.append(f"{name}: BLEU {parts.score:.2f}")
            rows += [f"  p{n} = {m} / {t} = {p:.2f} %" for n, (m, t, p) in enumerate(shares, 1)]
            rows.append(
                f"  brevity penalty {parts.brevity_penalty:.4f} "
                f"(output {parts.length} tokens, reference {parts.reference_length})"
            )
        return "\n".join(rows)


def bleu_of(metrics: Sequence[Metric]) -> SacreMetric:
    """Return the first BLEU among the metrics."""
    for metric in metrics:
        if isinstance(metric, SacreMetric) and metric.name.startswith("bleu"):
            return metric
    raise SeqloomError(
        "--explain takes BLEU apart, but bleu is not among the metrics.", "add bleu to --metrics"
    )


def explain_bleu(
    metric: SacreMetric, number: int, outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> BleuExplanation:
    """Return the parts of BLEU for line `number` (from 1) and for all lines."""
    rows = [metric.statistics(*pair) for pair in zip(outputs, references, strict=True)]
    tokens = metric.tokens(outputs[number - 1])
    others = [metric.tokens(reference) for reference in references[number - 1]]
    return BleuExplanation(
        number=number,
        output=tokens,
        references=others,
        matched=[_matched(tokens, others, n) for n in range(1, ORDER + 1)],
        line=_parts(metric, rows[number - 1]),
        corpus=_parts(metric, [sum(column) for column in zip(*rows, strict=True)]),
    )


def _ngrams(tokens: Sequence[str], n: int) -> Counter[str]:
    return Counter(" ".join(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def _matched(output: Sequence[str], references: Sequence[Sequence[str]], n: int) -> dict[str, int]:
    """Return the n-grams of the output that a reference has, each at most as often as one reference has it."""
    allowed: Counter[str] = Counter()
    for reference in references:
        allowed |= _ngrams(reference, n)
    return dict(_ngrams(output, n) & allowed)


def _parts(metric: SacreMetric, statistics: Sequence[float]) -> BleuParts:
    found = metric.bleu_score(statistics)
    return BleuParts(
        float(found.score),
        list(found.counts),
        list(found.totals),
        list(found.precisions),
        float(found.bp),
        int(found.sys_len),
        int(found.ref_len),
    )
