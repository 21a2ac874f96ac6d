"""Test sets from tables or aligned files, with one or more references per source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seqloom.data.config import DataConfig
from seqloom.data.context import with_context
from seqloom.data.readers import check_tables, columns_for, read, read_parallel, references
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.evaluate.references import group_by_source as grouped
from seqloom.languages import LanguagePair
from seqloom.types import DependencyTree, Example


@dataclass(frozen=True)
class TestSet:
    """Sources and references for evaluation."""

    name: str
    sources: list[str]
    references: list[list[str]]
    heads: list[DependencyTree | None]  # the trees of the sources, if the data has trees
    skipped: str = ""  # summary of the units that are not pairs, such as untranslated ones


def read_testset(
    data: DataConfig,
    tables: Sequence[str],
    *,
    source: str | None = None,
    targets: Sequence[str] = (),
    source_column: str | None = None,
    target_column: str | None = None,
    heads_column: str | None = None,
    tags_column: str | None = None,
    languages: LanguagePair | None = None,
    group_by_source: bool = False,
) -> TestSet:
    """Return the test set of these files; columns and languages default to those of the training data.

    Several targets give several references per source. Scores must cover all lines, so a malformed line is an
    error. Units without a translation are left out and counted in `skipped`.
    """
    report = DataReport()
    named = {
        "source_column": source_column,
        "target_column": target_column,
        "heads_column": heads_column,
        "tags_column": tags_column,
    }
    check_tables(tables, named)
    columns = target_column or data.target_column
    if source and targets and not tables:
        name = " ".join((source, *targets))
        examples, targets_by_line = _read_files(source, targets, data.context, report)
    elif tables and not source and not targets:
        name = " ".join(tables)
        examples = [
            example
            for table in tables
            for example in with_context(
                read(
                    table,
                    format=data.format,
                    **columns_for(data, table, named),
                    languages=languages or data.languages,
                    report=report,
                ),
                data.context,
                report,
            )
        ]
        targets_by_line = [references(example, columns) for example in examples]
    else:
        raise SeqloomError("No test data given.", "give a table, or both --source and --target")
    if faults := [line for line in report.lines if not line.skipped]:
        first = faults[0]
        raise SeqloomError(
            f"{first.file}, line {first.line} cannot be evaluated: {first.reason}.",
            "fix or remove the line; scores that skip lines are not comparable",
        )
    if not examples and report.total:
        raise report.no_pairs(name)
    if not examples:
        raise SeqloomError(f"{name} contains no lines to evaluate.")
    skipped = report.summary() if report.lines else ""
    sources = [example.source for example in examples]
    if group_by_source:
        pairs = zip(sources, targets_by_line, strict=True)
        sources, targets_by_line = grouped((text, reference) for text, row in pairs for reference in row)
        trees = {example.source: example.heads for example in examples}
        return TestSet(name, sources, targets_by_line, [trees[text] for text in sources], skipped)
    return TestSet(name, sources, targets_by_line, [example.heads for example in examples], skipped)


def _read_files(
    source: str, targets: Sequence[str], context: int, report: DataReport
) -> tuple[list[Example], list[list[str]]]:
    """Return the examples of the first target file, and the references of each from all target files."""
    if source == "-" and len(targets) > 1:
        raise SeqloomError("Standard input cannot be the source of several --target files.", "use a file")
    files = [list(with_context(read_parallel(source, target, report), context, report)) for target in targets]
    rows = zip(*files, strict=False)  # lengths differ only if the report has a malformed line
    return files[0], [[example.target or "" for example in row] for row in rows]
