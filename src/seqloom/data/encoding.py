"""Examples to rows of ids or frames that fit into the limits; what does not goes to the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from seqloom.data.report import DataReport
from seqloom.data.syntax import cut_heads, token_heads
from seqloom.data.tables import Malformed
from seqloom.errors import SeqloomError
from seqloom.text.frames import FrameReader, Frames, UnreadableFrames
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import Example

Long = Literal["drop", "truncate", "error"]
Row: TypeAlias = list[int] | Frames
Ids = tuple[Row, ...]  # of the source, of the target, and perhaps the heads of the source's tokens

_CHUNK = 20_000  # examples that are tokenised at a time
_CHUNK_OF_FRAMES = 200  # the same of files of features, which are larger


@dataclass(frozen=True)
class Numericalizer:
    """What makes rows of ids of examples; a source of frames may have `max_frames`, all else `max_length`."""

    tokenizers: TokenizerPair
    max_length: int
    long: Long
    max_frames: int = 2**62
    trees: bool = False
    threads: int = 1

    @property
    def features(self) -> int:
        """The numbers in a frame of the source; 0 if it is ids."""
        return self.tokenizers.reader.size if self.tokenizers.frames else 0

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """What the numbers of each side are stored as."""
        both = {"source": _dtype(self.tokenizers.reader), "target": _dtype(self.tokenizers.target)}
        return {**both, "heads": np.dtype("<i4")} if self.trees else both

    def chunks(
        self, examples: Iterable[Example], report: DataReport, on_progress: Callable[[int], None] | None = None
    ) -> Iterator[list[Ids]]:
        """The rows of all examples, some at a time; what is left out or cut goes to the report."""
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
    """The examples that can be read, and the ids of both sides; the others go to the report.

    A text without target is a target without source: what is to be learned.
    """
    chunk, sources = _sources(chunk, tokenizers.reader, threads, report)
    targets = [example.source if example.target is None else example.target for example in chunk]
    both = list(zip(sources, tokenizers.target.encode_batch(targets, threads), strict=True))
    return _with_heads(chunk, both, tokenizers.source, report) if trees else (chunk, both)


def _sources(
    chunk: list[Example], reader: Tokenizer | FrameReader, threads: int, report: DataReport
) -> tuple[list[Example], Sequence[Row]]:
    """The examples whose sources can be read, and these; a file of features may turn out to be none."""
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


def _with_heads(
    chunk: Sequence[Example], ids: Iterable[Ids], tokenizer: Tokenizer, report: DataReport
) -> tuple[list[Example], list[Ids]]:
    """The examples whose trees fit their tokens, and their ids with the heads."""
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
    """The longest that a side may be."""

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
    """The pairs that are neither empty nor too long; longer ones are treated as `long` says."""
    kept: list[Ids] = []
    most, most_of_target = limits
    for example, (source, target, *trees) in zip(chunk, ids, strict=True):
        if not len(target) or (not len(source) and example.target is not None):
            side = "text" if example.target is None else "target" if len(source) else "source"
            report.drop(example, f"{side} has no {most.unit if side == 'source' else 'tokens'}")
            continue
        if len(source) > most.longest or len(target) > most_of_target.longest:
            side, length, limit = "source", len(source), most
            if length <= most.longest:
                side, length, limit = "target", len(target), most_of_target
            if example.target is None:
                side = "text"
            if long == "error":
                raise SeqloomError(
                    f"{example.file or 'The data'}, line {example.line}: the {side} has {length} {limit.unit}, "
                    f"more than {limit.option}.",
                    f"raise {limit.option.partition('=')[0]}, or choose --long drop or --long truncate",
                )
            if long == "drop":
                report.drop(example, f"{side} longer than {limit.option} {limit.unit}")
                continue
            report.change(example, f"{side} cut to {limit.option} {limit.unit}")
            source, target = source[: most.longest], target[: most_of_target.longest]
            trees = [cut_heads(list(heads), most.longest) for heads in trees]
        kept.append((source, target, *trees))
    return kept
