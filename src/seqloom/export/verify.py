"""Whether two translators give the same answers, and the sentences to ask them."""

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

SENTENCES = 64  # that both are asked


@dataclass(frozen=True)
class Agreement:
    """How often two translators say the same, and how far apart the scores of equal answers are."""

    sentences: int
    equal: int
    score_difference: float  # the largest
    first_other: dict[str, str] | None  # source and both answers of the first sentence where they differ

    @property
    def share(self) -> float:
        return self.equal / max(1, self.sentences)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "share": round(self.share, 4)}


def compare(
    lines: Sequence[str], ours: Sequence[list[Hypothesis]], theirs: Sequence[list[Hypothesis]]
) -> Agreement:
    """The best answers of both to the same lines, token by token."""
    best = [(line, a[0], b[0]) for line, a, b in zip(lines, ours, theirs, strict=True)]
    other = [{"source": line, "ours": a.text, "theirs": b.text} for line, a, b in best if a.tokens != b.tokens]
    apart = (abs(a.score - b.score) for _, a, b in best if a.tokens == b.tokens)
    return Agreement(len(best), len(best) - len(other), max(apart, default=0.0), next(iter(other), None))


def score_difference(pairs: Sequence[Pair], ours: Scorer, theirs: Scorer) -> float:
    """The largest difference between log p of any token of given targets: no search has a part in it."""
    both = zip(ours.score(pairs), theirs.score(pairs), strict=True)
    return max(
        (abs(a - b) for x, y in both for a, b in zip(x.log_probs, y.log_probs, strict=True)), default=0.0
    )


def sentences(config: Config, tokenizer: Tokenizer, file: str | None) -> tuple[list[str], str]:
    """Lines to compare the engines on, and where they are from."""
    if file is not None:
        column = config.data.source_column
        given = (example.source for example in read_source(file, source_column=column, report=DataReport()))
        lines = list(islice((line for line in given if line.strip()), SENTENCES))
        if not lines:
            raise SeqloomError(f"{file} has no line to verify the export with.", "give real sentences")
        return lines, file
    part: Part = "valid" if config.data.has("valid") else "train"
    try:
        unheard = DataReport()
        examples = clean(read_corpus(config.data, part, unheard), unheard)
        if lines := [example.source for example in islice(examples, SENTENCES)]:
            return lines, f"the run's {part} data"
    except SeqloomError:  # the data need not be on the machine where a run is exported
        pass
    return _invented(tokenizer), "random pieces"


def _invented(tokenizer: Tokenizer) -> list[str]:
    draw = random.Random(0)
    ids = range(UNK + 1, tokenizer.size)
    return [tokenizer.decode(draw.choices(ids, k=draw.randint(1, 20))) for _ in range(SENTENCES)]
