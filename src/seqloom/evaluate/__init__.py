"""Metrics with signatures and confidence intervals."""

from seqloom.evaluate.alignment import AlignmentScore, score_alignment
from seqloom.evaluate.buckets import Bucket, by_length
from seqloom.evaluate.metrics import Metric, Score, evaluate, parse_metrics
from seqloom.evaluate.significance import Comparison, compare

__all__ = [
    "AlignmentScore",
    "Bucket",
    "Comparison",
    "Metric",
    "Score",
    "by_length",
    "compare",
    "evaluate",
    "parse_metrics",
    "score_alignment",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
