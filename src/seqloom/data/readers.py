"""Files to examples, one at a time: tables, plain text or CoNLL-U, and two aligned files of these.

A source that names a file of features beside its table gets the path from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest

from seqloom.data.columns import ColumnSelection
from seqloom.data.config import DataConfig, Format, Part
from seqloom.data.lines import lines, shown
from seqloom.data.report import DataReport
from seqloom.data.shards import Shard, check_read_again, corpora
from seqloom.data.syntax import ConlluSentence, parse_heads, read_conllu
from seqloom.data.tables import SUFFIXES, Malformed, Picked, rows, suffix, table_format
from seqloom.errors import SeqloomError
from seqloom.text.features import is_features, located
from seqloom.types import DependencyTree, Example

_LOOKED_AT = 10  # sources that tell whether a corpus is text


def read_corpus(config: DataConfig, part: Part, report: DataReport) -> Iterator[Example]:
    """The examples of one part of the corpus: of tables, of two line-aligned files, or lines of text."""
    check_given(config, part)
    for shard in chain.from_iterable(corpora(config, part)):
        yield from read_shard(config, shard, report)


def check_given(config: DataConfig, part: Part) -> None:
    """Raises if no file is named for a part."""
    if not config.has(part):
        raise SeqloomError(
            f"No {part} data is given.", f"name tables of pairs (data.{part}) or two aligned files"
        )


def read_shard(config: DataConfig, shard: Shard, report: DataReport) -> Iterator[Example]:
    """The examples of one file, or of two that are aligned."""
    if shard.target is not None:
        return read_parallel(shard.file, shard.target, report)
    if config.format == "text":
        return read_source(shard.file, format="text", report=report)
    return read(
        shard.file,
        format=config.format,
        source_column=config.source_column,
        target_column=config.target_column,
        heads_column=config.heads_column,
        report=report,
    )


def has_trees(config: DataConfig, part: Part) -> bool:
    """Whether the sources of one part of the corpus have dependency trees."""
    source = config.source if part == "train" else config.valid_source
    return is_conllu(source) if source else config.heads_column is not None and not config.is_text


def has_features(config: DataConfig) -> bool:
    """Whether the first sources of the training data name files of features; what cannot be read does not."""
    if not config.has("train") or config.is_text or "-" in (*config.train, config.source):
        return False
    try:
        first = _first_examples(config)
    except SeqloomError:  # told where the data is read
        return False
    return bool(first) and all(is_features(example.source) for example in first)


def check_targets_are_text(config: DataConfig) -> None:
    """Raise if the first targets of the training data name files of features: no model writes such files."""
    first = _first_examples(config)
    if first and all(example.target is not None and is_features(example.target) for example in first):
        raise SeqloomError(
            f"The targets are names of files of features ({first[0].file}, line {first[0].line}: "
            f"{first[0].target}). A model reads such files as its source, but cannot write them.",
            "choose a column of text as the target, e.g. --source-column 2 --target-column 1",
        )


def _first_examples(config: DataConfig) -> list[Example]:
    check_read_again(chain.from_iterable(corpora(config, "train")))
    return list(islice(read_corpus(config, "train", DataReport()), _LOOKED_AT))


def is_conllu(path: str) -> bool:
    return SUFFIXES.get(suffix(path)) == "conllu"


def read(
    path: str,
    *,
    format: Format = "auto",
    source_column: str | None = None,
    target_column: str | None = None,
    heads_column: str | None = None,
    report: DataReport,
) -> Iterator[Example]:
    """Yield the pairs of a table. Malformed records go to the report.

    Of several target columns (`2,3,4`) the first is the target; the others are in `columns`, as written.
    """
    selection = ColumnSelection(source_column, _names(target_column), [heads_column] if heads_column else [])
    for row, picked in rows(path, table_format(path, format), selection):
        report.total += 1
        if isinstance(picked, str):
            report.drop(Example(row.text, line=row.line, file=path), picked)
            continue
        source = located(picked.source, path)
        example = Example(source, picked.target, row.line, path, picked.others)
        try:
            yield replace(example, heads=_heads(picked, heads_column)) if heads_column else example
        except Malformed as fault:
            report.drop(example, str(fault))


def _heads(picked: Picked, column: str) -> DependencyTree:
    return parse_heads(picked.others[column], picked.source)


def references(example: Example, target_column: str | None) -> list[str]:
    """Return the targets of an example in the order of its target columns."""
    first = [] if example.target is None else [example.target]
    return first + [example.columns[name] for name in (_names(target_column) or [])[1:]]


def _names(target_column: str | None) -> list[str] | None:
    if target_column is None or target_column == "none":
        return None if target_column is None else []
    return [name.strip() for name in target_column.split(",")]


def read_source(
    path: str,
    *,
    format: Format = "auto",
    source_column: str | None = None,
    heads_column: str | None = None,
    prefix_column: str | None = None,
    require_column: str | None = None,
    report: DataReport,
) -> Iterator[Example]:
    """One example per line or record, for translating: empty and malformed ones stay, as empty sources.

    A file that is neither a table nor CoNLL-U by its suffix is plain text. What an answer begins with, if a
    column tells, is the example's target; what it has to contain is in its `columns`.
    """
    format = _source_format(path, format)
    for example, fault in (
        _text_sources(path, conllu=format == "conllu")
        if format in ("text", "conllu")
        else _table_sources(path, format, source_column, prefix_column, require_column, heads_column)
    ):
        report.total += 1
        if fault:
            report.change(example, fault)
        yield replace(example, source="") if fault else example


def _source_format(path: str, format: Format) -> Format:
    return SUFFIXES.get(suffix(path), "text") if format == "auto" else format


def check_has_columns(path: str, format: Format, columns: Mapping[str, str | None]) -> None:
    """Raise if columns are named of a file to translate that is not a table."""
    named = _options(columns)
    if named and _source_format(path, format) in ("text", "conllu"):
        raise SeqloomError(
            f"{shown(path)} is not a table, so {named} cannot be used.",
            "leave it out, or add --format tsv (csv, jsonl, parquet) if it is a table",
        )


def check_tables(tables: Sequence[str], columns: Mapping[str, str | None]) -> None:
    """Raise if columns are named and no table is given."""
    named = _options(columns)
    if named and not tables:
        raise SeqloomError(
            f"{named} cannot be used: no table is given.", "name a table of pairs, or leave it out"
        )


def _options(columns: Mapping[str, str | None]) -> str:
    """Return the options of the columns that are named."""
    return ", ".join(f"--{name.replace('_', '-')}" for name, column in columns.items() if column is not None)


def _text_sources(path: str, *, conllu: bool) -> Iterator[tuple[Example, str]]:
    """Every source, and what is wrong with it."""
    for sentence in _sentences(path, conllu=conllu):
        source = located(sentence.text, path)
        yield Example(source, line=sentence.line, file=path, heads=sentence.heads), sentence.fault


def _table_sources(
    path: str,
    format: Format,
    source_column: str | None,
    prefix_column: str | None,
    require_column: str | None,
    heads_column: str | None,
) -> Iterator[tuple[Example, str]]:
    """Yield every source, and what is wrong with it."""
    others = [name for name in (prefix_column, require_column, heads_column) if name]
    for row, picked in rows(path, format, ColumnSelection(source_column, [], others)):
        if isinstance(picked, str):
            yield Example(row.text, line=row.line, file=path), picked
            continue
        prefix = picked.others[prefix_column] if prefix_column else None
        example = Example(located(picked.source, path), prefix, row.line, path, picked.others)
        try:
            tree = _heads(picked, heads_column) if heads_column else None
            found, fault = replace(example, heads=tree), ""
        except Malformed as error:
            found, fault = example, str(error)
        yield found, fault


def read_parallel(source: str, target: str, report: DataReport) -> Iterator[Example]:
    """The pairs of two files whose lines, or sentences of CoNLL-U, belong together; as many must be in both."""
    if source == target == "-":
        raise SeqloomError("Source and target cannot both be standard input.", "name a file for one of them")
    sources, targets = (_sentences(path, conllu=is_conllu(path)) for path in (source, target))
    number = 0
    for number, (left, right) in enumerate(zip_longest(sources, targets), 1):
        if left is None or right is None:
            rest = number + sum(1 for _ in chain(sources, targets))
            counts = (number - 1, rest) if left is None else (rest, number - 1)
            unit = "sentences" if is_conllu(source) or is_conllu(target) else "lines"
            raise SeqloomError(
                f"{source} has {counts[0]:,} {unit}, but {target} has {counts[1]:,}.",
                "line-aligned files must be equally long; find where they part",
            )
        report.total += 1
        example = Example(located(left.text, source), right.text, left.line, source, heads=left.heads)
        if fault := left.fault or right.fault:
            report.drop(example, fault)
        else:
            yield example


def _sentences(path: str, *, conllu: bool) -> Iterator[ConlluSentence]:
    """The sentences of a CoNLL-U file, or the lines of any other."""
    if conllu:
        yield from read_conllu(path)
        return
    for number, line in enumerate(lines(path), 1):
        yield ConlluSentence(number, line)
