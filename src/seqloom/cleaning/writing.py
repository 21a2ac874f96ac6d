"""Files that cleaning writes: the kept pairs with their text unchanged, and a report of the dropped lines."""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO

from seqloom.cleaning.reading import Dropped, pair_of
from seqloom.errors import SeqloomError
from seqloom.outputs import check_can_write, draft_file, output, write_errors
from seqloom.strict_json import json_text
from seqloom.types import Example

HEADER = ("file", "line", "rule", "score", "reason", "source", "target")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class PairFiles(ABC):
    """Where the kept pairs go."""

    paths: tuple[Path, ...]
    instead = "JSON lines instead: --out FILE.jsonl"

    @abstractmethod
    def lines(self, example: Example) -> tuple[str, ...]:
        """Return the line of each file."""

    def check(self, example: Example) -> None:
        """Raise an error if the text of a pair cannot be written without a change."""
        for line in self.lines(example):
            if "\n" in line or line.endswith("\r"):
                self._refuse(example, "line ends")

    def _refuse(self, example: Example, what: str) -> None:
        raise SeqloomError(
            f"{example.file}, line {example.line} has {what} in its text, which {self.paths[0]} cannot hold.",
            f"write {self.instead}",
        )


class TsvFile(PairFiles):
    """A table with two columns and no header."""

    instead = "JSON lines instead (--out FILE.jsonl), or text files (--out-source and --out-target)"

    def __init__(self, path: Path) -> None:
        self.paths = (path,)

    def lines(self, example: Example) -> tuple[str, ...]:
        return ("\t".join(pair_of(example)),)

    def check(self, example: Example) -> None:
        if any("\t" in text for text in pair_of(example)):
            self._refuse(example, "tabs")
        super().check(example)


class JsonLinesFile(PairFiles):
    """Objects with the keys `source` and `target`."""

    def __init__(self, path: Path) -> None:
        self.paths = (path,)

    def lines(self, example: Example) -> tuple[str, ...]:
        source, target = pair_of(example)
        return (json_text({"source": source, "target": target}),)


class AlignedFiles(PairFiles):
    """Two text files."""

    def __init__(self, source: Path, target: Path) -> None:
        self.paths = (source, target)

    def lines(self, example: Example) -> tuple[str, ...]:
        return pair_of(example)


def pair_files(out: Path | None, out_source: Path | None, out_target: Path | None) -> PairFiles:
    """Return the files for these options, after a check that they can be written."""
    files = _pair_files(out, out_source, out_target)
    for path in files.paths:
        if str(path) == "-":
            raise SeqloomError("The result cannot go to standard output, which has the summary.", "name a file")
        check_can_write(path)
    return files


def _pair_files(out: Path | None, out_source: Path | None, out_target: Path | None) -> PairFiles:
    if out is not None and out_source is None and out_target is None:
        suffix = Path(out.name.removesuffix(".gz")).suffix.lower()
        if suffix in (".csv", ".parquet"):
            raise SeqloomError(f"Cleaning does not write {suffix} files.", "choose the suffix .tsv or .jsonl")
        return JsonLinesFile(out) if suffix in (".jsonl", ".ndjson") else TsvFile(out)
    if out is None and out_source is not None and out_target is not None:
        if out_source == out_target:
            raise SeqloomError(f"Both sides cannot be written to {out_source}.", "name two files")
        return AlignedFiles(out_source, out_target)
    raise SeqloomError("No output is given, or too many.", "give --out, or both --out-source and --out-target")


class CleaningFiles:
    """The open files."""

    def __init__(self, pairs: PairFiles, streams: list[IO[str]], report: IO[str]) -> None:
        self._pairs, self._streams, self._report = pairs, streams, report
        self._write_row(HEADER)

    def keep(self, example: Example) -> None:
        """Write a pair."""
        for stream, line in zip(self._streams, self._pairs.lines(example), strict=True):
            stream.write(f"{line}\n")

    def drop(self, dropped: Dropped) -> None:
        """Write a line of the report."""
        example, rule, (reason, score) = dropped
        shown = "" if score is None else f"{score:.4g}"
        texts = (example.source, example.target or "")
        self._write_row((example.file, str(example.line), rule, shown, reason, *texts))

    def _write_row(self, cells: tuple[str, ...]) -> None:
        self._report.write("\t".join(cell.translate(_ESCAPES) for cell in cells) + "\n")


@contextmanager
def cleaning_files(pairs: PairFiles, report: Path) -> Iterator[CleaningFiles]:
    """Open all files; they appear when everything is written."""
    with ExitStack() as stack:
        streams = [stack.enter_context(_text_stream(path)) for path in pairs.paths]
        yield CleaningFiles(pairs, streams, stack.enter_context(_text_stream(report)))


@contextmanager
def _text_stream(path: Path) -> Iterator[IO[str]]:
    """Yield a stream; its content is packed if the name ends in .gz."""
    if path.suffix != ".gz":
        with output(path) as stream:
            yield stream
        return
    with write_errors(path), draft_file(path) as draft, draft.open("wb") as raw:
        packed = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)  # equal content, equal bytes
        with packed, TextIOWrapper(packed, encoding="utf-8", newline="\n") as stream:
            yield stream
