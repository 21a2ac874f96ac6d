"""Back-translation: synthetic sources for monolingual target text (Sennrich et al. 2016, arXiv:1511.06709).

A reverse model translates the target text into the source language. With a tag before each synthetic source,
the new model can distinguish synthetic from real pairs (Caswell et al. 2019, arXiv:1906.06442).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from seqloom.data.readers import check_has_columns, read_source
from seqloom.data.report import DataReport
from seqloom.data.tables import suffix
from seqloom.distillation.journal import Journal
from seqloom.distillation.mixing import training_commands
from seqloom.distillation.translation import (
    FlaggedOutput,
    TranslatorOptions,
    candidates,
    check_file,
    translate_rest,
    weights_checksum,
)
from seqloom.errors import SeqloomError
from seqloom.files import is_special, sha256, write_json
from seqloom.locks import lock_of, locked
from seqloom.outputs import check_can_write, output, write_errors
from seqloom.run.directory import Run
from seqloom.text.pair import is_tag
from seqloom.types import Example

_FORMATS = (".tsv", ".jsonl")
_CELL_ENDS = re.compile(r"[\t\r\n]")


@dataclass(frozen=True)
class Backtranslation:
    """Result of a back-translation: which lines became pairs, and how to train on them."""

    out: Path
    report_file: Path
    settings: dict[str, Any]
    data: DataReport  # dropped lines with their reasons
    commands: list[str]  # that train on real and synthetic pairs

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the report file."""
        return {
            "out": str(self.out),
            "pairs": self.data.kept,
            "settings": self.settings,
            "train": self.commands,
            "lines": self.data.as_dict(),
        }


def backtranslate(
    reverse: Path,
    text: str,
    out: Path,
    *,
    decoding: TranslatorOptions,
    tag: str | None = None,
    column: str | None = None,
    checkpoint: str | None = None,
) -> Backtranslation:
    """Translate target text by a reverse run, and write pairs (output, line) in the order of the lines.

    Empty lines and lines with an empty or suspicious output are dropped and reported. Interrupted work
    continues when the function is called again with the same arguments.
    """
    _check(text, out, tag)
    check_has_columns(text, "auto", {"column": column})
    read = partial(read_source, text, source_column=column)
    run = Run.open(reverse)
    if context := run.config().data.context:
        raise SeqloomError(
            f"{reverse} was trained with data.context={context}.",
            "back-translation translates single lines: use a run without context",
        )
    settings = {
        "run": str(reverse),
        "weights": weights_checksum(reverse, checkpoint),
        "text": text,
        "sha256": sha256(Path(text)),
        "column": column,
        "tag": tag,
        **decoding.as_dict(),
    }
    unfinished = out.with_name(f"{out.name}.unfinished")
    with write_errors(out), locked(lock_of(unfinished), f"{out} is being written"):
        journal = Journal(unfinished, settings)
        total = sum(1 for _ in read(report=DataReport()))
        load = partial(decoding.load, [reverse], checkpoint=checkpoint)
        translate_rest(journal, load, decoding.strategy, read(report=DataReport()), total)
        data = DataReport()
        with output(out) as stream:
            for source, target in _pairs(read(report=data), journal, data):
                stream.write(_line(out, f"{tag} {source}" if tag else source, target))
            if not data.kept:
                raise SeqloomError(
                    f"No pair is left: {data.summary()}.",
                    f"check the outputs of the reverse run: seqloom translate {reverse} {text}",
                )
        found = Backtranslation(
            out, out.with_name(f"{out.name}.report.json"), settings, data, training_commands(run, out)
        )
        write_json(found.report_file, found.as_dict())
        journal.remove()
    return found


def _check(text: str, out: Path, tag: str | None) -> None:
    check_file(text)
    if tag is not None and not is_tag(tag):
        raise SeqloomError(
            f"The tag {tag!r} is not a word in angle brackets.", "e.g. --tag '<bt>'; tokenizers never split it"
        )
    if suffix(str(out)) not in _FORMATS or out.suffix == ".gz":
        raise SeqloomError(f"{out} must end in .tsv or .jsonl.", "e.g. --out synthetic.tsv")
    check_can_write(out)
    if is_special(out):
        raise SeqloomError(f"{out} is not a regular file.", "give a file, so that the work can be resumed")


def _pairs(examples: Iterator[Example], journal: Journal, report: DataReport) -> Iterator[tuple[str, str]]:
    """Yield a pair of synthetic source and target for each line; the others go to the report."""
    for example, found in zip(examples, candidates(journal), strict=True):
        reason = _drop_reason(example, found[0])
        if reason:
            report.drop(example, reason)
        else:
            yield found[0].text, example.source


def _drop_reason(example: Example, best: FlaggedOutput) -> str:
    """Return why a line and its output do not make a pair; empty if they do."""
    if not example.source.strip():
        return "empty line"
    if best.flags:
        return f"suspicious output: {', '.join(best.flags)}"
    return "" if best.text.strip() else "empty output"


def _line(out: Path, source: str, target: str) -> str:
    """Return a pair in the format of the file; in TSV, tabs and line ends inside the texts become spaces."""
    if out.suffix == ".jsonl":
        return json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n"
    return "\t".join(_CELL_ENDS.sub(" ", text) for text in (source, target)) + "\n"
