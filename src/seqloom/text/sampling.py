"""Subword regularisation: random segmentations of texts that are already tokenised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from seqloom.errors import SeqloomError
from seqloom.text.config import MASK, SUBWORDS, TextConfig
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK


class _Run(NamedTuple):
    """Consecutive ids, and their text if they can be segmented differently, else an empty string."""

    ids: list[int]
    text: str


class SubwordSampler:
    """Random segmentations, drawn by SentencePiece.

    unigram: a segmentation s of the n best, or of all, with probability ∝ P(s)^alpha (Kudo 2018, section 3.2).
    bpe: each merge is left out with probability alpha (Provilkov et al. 2020, section 3).

    Tags and unknown characters stay as they are. A text keeps its segmentation if the new one would be longer
    than `longest`.
    """

    def __init__(self, tokenizer: Tokenizer, config: TextConfig, longest: int) -> None:
        kind = tokenizer.settings.kind
        if kind not in SUBWORDS:
            raise SeqloomError(
                f"text.sampling={config.sampling} needs a unigram or bpe tokenizer, but this one is {kind}.",
                "leave it out, or train new tokenizers",
            )
        self._tokenizer, self._longest = tokenizer, longest
        self._alpha = config.sampling_alpha
        self._nbest = config.sampling_nbest if kind == "unigram" else -1  # bpe ignores it
        self._fixed = frozenset((UNK, *tokenizer.tags))

    def __call__(self, rows: Sequence[list[int]], seed: int) -> list[list[int]]:
        """Return another segmentation of each row of ids; it depends on the rows and the seed only."""
        split = [list(self._runs(row)) for row in rows]
        texts = [run.text for runs in split for run in runs if run.text]
        drawn = iter(self._tokenizer.sample_batch(texts, alpha=self._alpha, nbest=self._nbest, seed=seed))
        sampled = [[id for run in runs for id in _replaced(run, drawn)] for runs in split]
        return [new if len(new) <= self._longest else row for row, new in zip(rows, sampled, strict=True)]

    def _runs(self, row: list[int]) -> Iterator[_Run]:
        """Yield the row in runs of ordinary ids and runs of ids that are never segmented differently."""
        if self._fixed.isdisjoint(row):
            yield _Run(row, self._text(row))
            return
        for is_fixed, run in groupby(row, self._fixed.__contains__):
            ids = list(run)
            yield _Run(ids, "" if is_fixed else self._text(ids))

    def _text(self, ids: list[int]) -> str:
        try:
            text = b"".join(self._tokenizer.bytes_of(ids)).decode()
        except UnicodeDecodeError:  # truncated inside a character
            return ""
        return "" if MASK in text else text  # encoded as one text, it would become the symbol


def _replaced(run: _Run, drawn: Iterator[list[int]]) -> list[int]:
    """Return the next drawn ids for a run with a text, unless a character has no piece of its own."""
    if not run.text:
        return run.ids
    new = next(drawn)
    return run.ids if UNK in new else new
