"""Sources with one or more references each, from tables or aligned files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seqloom.data.config import DataConfig
from seqloom.data.readers import check_tables, read, read_parallel, references
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.evaluate.references import group_by_source as grouped
from seqloom.types import Heads


@dataclass(frozen=True)
class TestSet:
    """What to translate and what to compare it with."""

    name: str
    sources: list[str]
    references: list[list[str]]
    heads: list[Heads | None]  # the trees of the sources, if the data has trees


def read_testset(
    data: DataConfig,
    tables: Sequence[str],
    *,
    source: str | None = None,
    target: str | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    heads_column: str | None = None,
    group_by_source: bool = False,
) -> TestSet:
    """The test set of these files; columns that are not named are those of the training data.

    No line may be missing from a measurement, so a malformed one is an error here.
    """
    report = DataReport()
    named = {"source_column": source_column, "target_column": target_column, "heads_column": heads_column}
    check_tables(tables, named)
    columns = target_column or data.target_column
    if source and target and not tables:
        name = f"{source} {target}"
        examples = list(read_parallel(source, target, report))
    elif tables and not source and not target:
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
    else:
        raise SeqloomError("Nothing to evaluate on is given.", "name a table, or both --source and --target")
    if report.lines:
        first = report.lines[0]
        raise SeqloomError(
            f"{first.file}, line {first.line} cannot be evaluated: {first.reason}.",
            "mend or remove the line; a score that leaves lines out is not comparable",
        )
    if not examples:
        raise SeqloomError(f"{name} has no lines to evaluate on.")
    pairs = [(example.source, references(example, columns)) for example in examples]
    if group_by_source:
        flat = [(text, reference) for text, answers in pairs for reference in answers]
        sources, answers = grouped(flat)
        trees = {example.source: example.heads for example in examples}
        return TestSet(name, sources, answers, [trees[text] for text in sources])
    sources = [text for text, _ in pairs]
    return TestSet(name, sources, [answers for _, answers in pairs], [example.heads for example in examples])
