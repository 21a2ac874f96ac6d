"""Advice at the start of training on options that seldom fit such data. The planner does not choose them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from seqloom.data.corpus import Prepared
from seqloom.run.config import Config
from seqloom.text.config import SUBWORDS

_LINES = 1000  # validation lines that are measured; training pairs below which batches do not matter
_SINGLE_WORDS = 1.5  # mean words per line below which lines are single words
_FEW_UPDATES = 300  # per epoch
_MANY_PAIRS = 400  # per update


def advice(config: Config, prepared: Prepared) -> Iterator[str]:
    """Yield advice on the unit of text and the size of batches, for a neural model of text."""
    if prepared.tokenizers.frames or config.text.writes_vectors or config.data.is_text:
        return
    pairs = [(e.source, e.target or "") for e in islice(prepared.valid_examples(), _LINES)]
    words = sum(len(source.split()) for source, _ in pairs) / max(len(pairs), 1)
    kind = config.text.kinds[0]
    if kind in SUBWORDS and 0 < words < _SINGLE_WORDS:
        yield (
            f"most sources are single words, but text.tokenizer={kind} splits them into frequent subwords; "
            "text.tokenizer=char usually learns more"
        )
    ends = prepared.valid.lengths(0, min(_LINES, len(prepared.valid)))
    tokens = max(float(side.mean()) + 1 for side in ends)  # and the end of sentence
    batch, total = config.train.batch_tokens, sum(prepared.record.pairs.values())
    rows = batch * config.train.accumulate / tokens
    if rows > _MANY_PAIRS and total >= _LINES and total / rows < _FEW_UPDATES:
        yield (
            f"lines are short, so train.batch_tokens={batch} gives only {total / rows:.0f} updates per epoch, "
            f"of {rows:.0f} pairs each; a smaller batch, such as 1024, usually learns faster"
        )
