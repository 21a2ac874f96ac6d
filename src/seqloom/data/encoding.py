"""Conversion of examples to ids or frames within the length limits; dropped lines go to the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from seqloom.data.records import Malformed
from seqloom.data.report import DataReport
from seqloom.data.syntax import cut_heads, token_heads
from seqloom.errors import SeqloomError
from seqloom.text.frames import FrameReader, Frames, UnreadableFrames
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import Example

Long = Literal["drop", "truncate", "error"]
Row: TypeAlias = list[int] | Frames
Ids = tuple[Row, ...]  # source, target and, if the data has trees, the heads of the source tokens

_CHUNK = 20_000  # examples tokenised at a time
_CHUNK_OF_FRAMES = 200  # fewer feature files, which are larger


@dataclass(frozen=True)
class Numericalizer:
    """Converter of examples to ids; `max_frames` limits sources of frames, `max_length` everything else."""

    tokenizers: TokenizerPair
    max_length: int
    long: Long
    max_frames: int = 2**62
    trees: bool = False
    threads: int = 1

    @property
    def features(self) -> int:
        """Number of features per source frame; 0 if sources are ids."""
        return self.tokenizers.reader.size if self.tokenizers.frames else 0

    @property
    def target_features(self) -> int:
        """Number of features per target vector; 0 if targets are ids."""
        return 0 if self.tokenizers.target_kind == "tokens" else self.tokenizers.writer.size

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """Storage type of each side."""
        both = {"source": _dtype(self.tokenizers.reader), "target": _dtype(self.tokenizers.writer)}
        return {**both, "heads": np.dtype("<i4")} if self.trees else both

    def chunks(
        self, examples: Iterable[Example], report: DataReport, on_progress: Callable[[int], None] | None = None
    ) -> Iterator[list[Ids]]:
        """Yield the rows of all examples in chunks; dropped and truncated lines go to the report."""
        iterator, frames = iter(examples), self.tokenizers.frames
        limits = Limit(self.max_frames, "frames") if frames else Limit(self.max_length), Limit(self.max_length)
        while chunk := list(islice(iterator, _CHUNK_OF_FRAMES if frames else _CHUNK)):
            readable, rows = encode(chunk, self.tokenizers, self.threads, report, trees=self.trees)
            yield fit(readable, rows, limits=limits, long=self.long, report=report)
            if on_progress:
                on_progress(len(chunk))


def _dtype(tokenizer: Tokenizer | FrameReader) -> np.dtype[Any]:
    if isinstance(tokenizer, FrameReader):
        return np.dtype("<f4")
    return np.dtype("<u2" if tokenizer.size <= 2**16 else "<u4")


def encode(
    chunk: list[Example], tokenizers: TokenizerPair, threads: int, report: DataReport, *, trees: bool
) -> tuple[list[Example], Iterable[Ids]]:
    """Return the readable examples and the ids of both sides; the other examples go to the report.

    A text without a target becomes a target with an empty source: it is the text to be learned.
    """
    chunk, sources = _sources(chunk, tokenizers.reader, threads, report)
    if isinstance(tokenizers.writer, FrameReader):
        chunk, both = _with_vectors(chunk, sources, tokenizers.writer, report)
    else:
        targets = [example.source if example.target is None else example.target for example in chunk]
        both = list(zip(sources, tokenizers.writer.encode_batch(targets, threads), strict=True))
    return _with_heads(chunk, both, tokenizers.source, report) if trees else (chunk, both)


def _sources(
    chunk: list[Example], reader: Tokenizer | FrameReader, threads: int, report: DataReport
) -> tuple[list[Example], Sequence[Row]]:
    """Return the examples with readable sources, and the rows of these; feature files may be unreadable."""
    if not isinstance(reader, FrameReader):
        texts = [example.source if example.target is not None else "" for example in chunk]
        return chunk, reader.encode_batch(texts, threads)
    kept, rows = list[Example](), list[Frames]()
    for example in chunk:
        try:
            rows.append(reader.encode(example.source))
            kept.append(example)
        except UnreadableFrames as fault:
            report.drop(example, f"unreadable features: {fault.reason}")
    return kept, rows


def _with_vectors(
    chunk: Sequence[Example], sources: Sequence[Row], writer: FrameReader, report: DataReport
) -> tuple[list[Example], list[Ids]]:
    """Return the examples whose targets are readable arrays, and both sides of these."""
    kept, rows = list[Example](), list[Ids]()
    for example, source in zip(chunk, sources, strict=True):
        try:
            rows.append((source, writer.encode(example.target or "")))
            kept.append(example)
        except UnreadableFrames as fault:
            report.drop(example, f"unreadable target: {fault.reason}")
    return kept, rows


def _with_heads(
    chunk: Sequence[Example], ids: Iterable[Ids], tokenizer: Tokenizer, report: DataReport
) -> tuple[list[Example], list[Ids]]:
    """Return the examples whose trees match their tokens, and their ids with the heads."""
    kept, rows = list[Example](), list[Ids]()
    for example, (source, target) in zip(chunk, ids, strict=True):
        try:
            heads = token_heads(tokenizer, list(source), example.heads or ())
        except Malformed as fault:
            report.drop(example, str(fault))
            continue
        kept.append(example)
        rows.append((source, target, heads))
    return kept, rows


class Limit(NamedTuple):
    """Length limit of one side."""

    longest: int
    unit: str = "tokens"

    @property
    def option(self) -> str:
        return f"data.max_{'frames' if self.unit == 'frames' else 'length'}={self.longest}"


def fit(
    chunk: Sequence[Example],
    ids: Iterable[Ids],
    *,
    limits: tuple[Limit, Limit],
    long: Long,
    report: DataReport,
) -> list[Ids]:
    """Return the pairs that are neither empty nor too long; `long` sets how longer ones are handled."""
    kept: list[Ids] = []
    source_limit, target_limit = limits
    for example, (source, target, *trees) in zip(chunk, ids, strict=True):
        if not len(target) or (not len(source) and example.target is not None):
            side = "text" if example.target is None else "target" if len(source) else "source"
            report.drop(example, f"{side} has no {source_limit.unit if side == 'source' else 'tokens'}")
            continue
        if len(source) > source_limit.longest or len(target) > target_limit.longest:
            side, length, limit = "source", len(source), source_limit
            if length <= source_limit.longest:
                side, length, limit = "target", len(target), target_limit
            if example.target is None:
                side = "text"
            if long == "error":
                raise SeqloomError(
                    f"{example.file or 'The data'}, line {example.line}: the {side} has {length} {limit.unit}, "
                    f"more than {limit.option}.",
                    f"increase {limit.option.partition('=')[0]}, or use --long drop or --long truncate",
                )
            if long == "drop":
                report.drop(example, f"{side} longer than {limit.option} {limit.unit}")
                continue
            report.change(example, f"{side} truncated to {limit.option} {limit.unit}")
            source, target = source[: source_limit.longest], target[: target_limit.longest]
            trees = [cut_heads(list(heads), source_limit.longest) for heads in trees]
        kept.append((source, target, *trees))
    return kept
