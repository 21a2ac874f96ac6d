"""Sources with one or more references each, from tables or aligned files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seqloom.data.config import DataConfig
from seqloom.data.readers import check_tables, read, read_parallel, references
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.evaluate.references import group_by_source as grouped
from seqloom.types import DependencyTree, Example


@dataclass(frozen=True)
class TestSet:
    """What to translate and what to compare it with."""

    name: str
    sources: list[str]
    references: list[list[str]]
    heads: list[DependencyTree | None]  # the trees of the sources, if the data has trees


def read_testset(
    data: DataConfig,
    tables: Sequence[str],
    *,
    source: str | None = None,
    targets: Sequence[str] = (),
    source_column: str | None = None,
    target_column: str | None = None,
    heads_column: str | None = None,
    group_by_source: bool = False,
) -> TestSet:
    """Return the test set of these files; columns that are not named are those of the training data.

    Several targets are several references of each line of the source. No line may be missing from a
    measurement, so a malformed one is an error here.
    """
    report = DataReport()
    named = {"source_column": source_column, "target_column": target_column, "heads_column": heads_column}
    check_tables(tables, named)
    columns = target_column or data.target_column
    if source and targets and not tables:
        name = " ".join((source, *targets))
        examples, answers = _read_files(source, targets, report)
    elif tables and not source and not targets:
        name = " ".join(tables)
        examples = [
            example
            for table in tables
            for example in read(
                table,
                format=data.format,
                source_column=source_column or data.source_column,
                target_column=columns,
                heads_column=heads_column or data.heads_column,
                report=report,
            )
        ]
        answers = [references(example, columns) for example in examples]
    else:
        raise SeqloomError("No test data is given.", "name a table, or both --source and --target")
    if report.lines:
        first = report.lines[0]
        raise SeqloomError(
            f"{first.file}, line {first.line} cannot be evaluated: {first.reason}.",
            "fix or remove the line; a score that leaves lines out is not comparable",
        )
    if not examples:
        raise SeqloomError(f"{name} has no lines to evaluate on.")
    sources = [example.source for example in examples]
    if group_by_source:
        pairs = zip(sources, answers, strict=True)
        sources, answers = grouped((text, reference) for text, given in pairs for reference in given)
        trees = {example.source: example.heads for example in examples}
        return TestSet(name, sources, answers, [trees[text] for text in sources])
    return TestSet(name, sources, answers, [example.heads for example in examples])


def _read_files(
    source: str, targets: Sequence[str], report: DataReport
) -> tuple[list[Example], list[list[str]]]:
    """Return the examples of the first target file, and the references of each from all target files."""
    if source == "-" and len(targets) > 1:
        raise SeqloomError("Standard input cannot be the source of several --target files.", "name a file")
    files = [list(read_parallel(source, target, report)) for target in targets]
    rows = zip(*files, strict=False)  # of different lengths only if the report has a malformed line
    return files[0], [[example.target or "" for example in row] for row in rows]
