"""Comparison of two translators on the same sentences, to verify an export."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from seqloom.data.config import Part
from seqloom.data.readers import read_corpus, read_source
from seqloom.data.report import DataReport, clean
from seqloom.decode.scoring import Pair, Scorer
from seqloom.errors import SeqloomError
from seqloom.run.config import Config
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK, Hypothesis

SENTENCES = 64  # translated by both


@dataclass(frozen=True)
class Agreement:
    """Number of equal outputs of two translators, and the score difference of equal outputs."""

    sentences: int
    equal: int
    score_difference: float  # maximum over the equal outputs
    first_other: dict[str, str] | None  # source and both outputs of the first sentence with different outputs

    @property
    def share(self) -> float:
        return self.equal / max(1, self.sentences)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "share": round(self.share, 4)}


def compare(
    lines: Sequence[str], original: Sequence[list[Hypothesis]], exported: Sequence[list[Hypothesis]]
) -> Agreement:
    """Compare the best outputs of both translators for the same lines, token by token."""
    best = [(line, a[0], b[0]) for line, a, b in zip(lines, original, exported, strict=True)]
    different = [
        {"source": line, "ours": a.text, "theirs": b.text} for line, a, b in best if a.tokens != b.tokens
    ]
    gaps = (abs(a.score - b.score) for _, a, b in best if a.tokens == b.tokens)
    return Agreement(len(best), len(best) - len(different), max(gaps, default=0.0), next(iter(different), None))


def score_difference(pairs: Sequence[Pair], original: Scorer, exported: Scorer) -> float:
    """Return the largest difference in log p of any token of the given targets, independent of any search."""
    both = zip(original.score(pairs), exported.score(pairs), strict=True)
    return max(
        (abs(a - b) for x, y in both for a, b in zip(x.log_probs, y.log_probs, strict=True)), default=0.0
    )


def sentences(config: Config, tokenizer: Tokenizer, file: str | None) -> tuple[list[str], str]:
    """Return the lines on which to compare the engines, and a description of their origin."""
    if file is not None:
        column = config.data.source_column
        given = (example.source for example in read_source(file, source_column=column, report=DataReport()))
        lines = list(islice((line for line in given if line.strip()), SENTENCES))
        if not lines:
            raise SeqloomError(
                f"{file} has no line to verify the export with.", "name a file with real sentences"
            )
        return lines, file
    part: Part = "valid" if config.data.has("valid") else "train"
    try:
        discarded = DataReport()
        examples = clean(read_corpus(config.data, part, discarded), discarded)
        if lines := [example.source for example in islice(examples, SENTENCES)]:
            return lines, f"the run's {part} data"
    except SeqloomError:  # the machine that exports a run may not have its data
        pass
    return _random_lines(tokenizer), "random pieces"


def _random_lines(tokenizer: Tokenizer) -> list[str]:
    rng = random.Random(0)
    ids = range(UNK + 1, tokenizer.size)
    return [tokenizer.decode(rng.choices(ids, k=rng.randint(1, 20))) for _ in range(SENTENCES)]
