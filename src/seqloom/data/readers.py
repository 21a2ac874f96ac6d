"""Readers that yield examples from tables, translation units, plain text and CoNLL-U, or two aligned files.

A source that names a feature file next to its table is replaced by a path that can be opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest

from seqloom.data.aligned import aligned_names
from seqloom.data.archives import open_archive
from seqloom.data.column_roles import with_tags
from seqloom.data.columns import ColumnSelection
from seqloom.data.config import DataConfig, Format, Part
from seqloom.data.context import with_context
from seqloom.data.lines import display_name, lines
from seqloom.data.records import Malformed, SelectedCells
from seqloom.data.report import DataReport
from seqloom.data.shards import Shard, check_rereadable, corpora
from seqloom.data.syntax import ConlluSentence, parse_heads, read_conllu
from seqloom.data.tables import SUFFIXES, TABLES, rows, suffix, table_format
from seqloom.data.units.reading import has_units, read_units
from seqloom.data.units.subtitles import read_subtitles
from seqloom.data.units.unit import NOT_TEXT, Unit
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair
from seqloom.text.features import is_features, resolve_path
from seqloom.types import DependencyTree, Example

_NOT_ALONE = ("text", "conllu", "subtitles", "zip")  # formats of files that are no pairs in an archive
_PEEKED_SOURCES = 10  # number of sources that decide whether a corpus is text


def read_corpus(config: DataConfig, part: Part, report: DataReport) -> Iterator[Example]:
    """Yield the examples of one part of the corpus: tables, two aligned files, or lines of text."""
    check_has_files(config, part)
    for shard in chain.from_iterable(corpora(config, part)):
        yield from read_shard(config, shard, report)


def check_has_files(config: DataConfig, part: Part) -> None:
    """Raise if no file is given for a part."""
    if not config.has(part):
        raise SeqloomError(
            f"No {part} data given.", f"set data.{part} to tables of pairs, or give two aligned files"
        )


def read_shard(config: DataConfig, shard: Shard, report: DataReport) -> Iterator[Example]:
    """Return the examples of one file, or of two aligned files, with their context."""
    if shard.target is not None:
        return with_context(read_parallel(shard.file, shard.target, report), config.context, report)
    if config.format == "text":
        return read_source(shard.file, format="text", report=report)
    if config.context and table_format(shard.file, config.format) == "zip":
        raise SeqloomError("data.context cannot be used for archives.", "unpack the archive")
    examples = read(
        shard.file,
        languages=config.languages,
        format=config.format,
        source_column=config.source_column,
        target_column=config.target_column,
        heads_column=config.heads_column,
        tags_column=config.tags_column,
        report=report,
    )
    return with_context(examples, config.context, report)


def has_trees(config: DataConfig, part: Part) -> bool:
    """Return whether the sources of one part of the corpus have dependency trees."""
    source = config.source if part == "train" else config.valid_source
    return is_conllu(source) if source else config.heads_column is not None and not config.is_text


def has_features(config: DataConfig) -> bool:
    """Return whether the first training sources name feature files; False for data that cannot be read."""
    if not config.has("train") or config.is_text or "-" in (*config.train, config.source):
        return False
    try:
        if any(
            _is_closed(shard.file, config.format) for shard in chain.from_iterable(corpora(config, "train"))
        ):
            return False
        first = _first_examples(config)
    except SeqloomError:  # reported later, when the data is read
        return False
    return bool(first) and all(is_features(example.source) for example in first)


def check_targets_are_text(config: DataConfig) -> None:
    """Raise if the first training targets name feature files, which no model can generate."""
    first = _first_examples(config)
    if first and all(example.target is not None and is_features(example.target) for example in first):
        raise SeqloomError(
            f"The targets are feature files ({first[0].file}, line {first[0].line}: {first[0].target}). "
            "This model can read feature files, but not write them.",
            "select a text column as the target, e.g. --source-column 2 --target-column 1, or use --model "
            "lstm-vectors",
        )


def _first_examples(config: DataConfig) -> list[Example]:
    check_rereadable(chain.from_iterable(corpora(config, "train")))
    return list(islice(read_corpus(config, "train", DataReport()), _PEEKED_SOURCES))


def is_conllu(path: str) -> bool:
    return SUFFIXES.get(suffix(path)) == "conllu"


def columns_for(data: DataConfig, path: str, named: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the columns of a file; those that are not named default to the columns of the training data."""
    if has_units(_source_format(path, data.format)):
        return dict(named)  # has no columns: an error if any is named
    return {name: column or getattr(data, name) for name, column in named.items()}


def read(
    path: str,
    *,
    format: Format = "auto",
    languages: LanguagePair | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    heads_column: str | None = None,
    tags_column: str | None = None,
    report: DataReport,
) -> Iterator[Example]:
    """Yield the pairs of a table, or of translation units. Malformed records go to the report.

    With several target columns (`2,3,4`), the first is the target; the others are in `columns`, unchanged.
    """
    if table_format(path, format) == "zip":
        named = {"source_column": source_column, "target_column": target_column}
        options = DataConfig.checked(
            {**named, "heads_column": heads_column, "tags_column": tags_column, "languages": languages}, "data"
        )
        yield from _archived(path, options, report)
        return
    if has_units(table_format(path, format)):
        columns = {"source_column": source_column, "target_column": target_column}
        check_has_columns(path, format, {**columns, "heads_column": heads_column, "tags_column": tags_column})
        yield from _unit_pairs(path, read_units(path, table_format(path, format), languages), report)
        return
    others = [column for column in (heads_column, tags_column) if column]
    selection = ColumnSelection(source_column, _names(target_column), others)
    for row, cells in rows(path, table_format(path, format), selection):
        report.total += 1
        if isinstance(cells, str):
            report.drop(Example(row.text, line=row.line, file=path), cells)
            continue
        target = None if cells.target is None else resolve_path(cells.target, path)
        example = Example(_source(cells, path, tags_column), target, row.line, path, cells.others)
        try:
            yield replace(example, heads=_heads(cells, heads_column)) if heads_column else example
        except Malformed as fault:
            report.drop(example, str(fault))


def _archived(path: str, config: DataConfig, report: DataReport) -> Iterator[Example]:
    """Yield the pairs of an archive: of files in pairs, then of single files; others are reported."""
    with open_archive(path) as archive:
        pairs = aligned_names(archive.names, config.languages) if config.languages else []
        paired = {name for pair in pairs for name in pair}
        for names in [*pairs, *((name,) for name in archive.names if name not in paired)]:
            file = f"{path}/{names[0]}"
            if len(names) == 1 and SUFFIXES.get(suffix(names[0]), "text") in _NOT_ALONE:
                report.total += 1
                report.skip(Example("", file=file), "file of another format")
                continue
            with archive.extracted(*names) as files:
                own = DataReport()
                for example in read_shard(config, Shard(*files), own):
                    if is_features(example.source):
                        own.drop(replace(example, source=""), "feature file in an archive")
                    else:
                        yield replace(example, file=file)
            report.add(own.moved(file))


def _is_closed(path: str, format: Format) -> bool:
    """Return whether a file cannot name feature files: units, and archives."""
    return has_units(_source_format(path, format)) or _source_format(path, format) == "zip"


def _unit_pairs(path: str, units: Iterable[Unit], report: DataReport) -> Iterator[Example]:
    """Yield the translated units of a file; the others go to the report with the reason."""
    for unit in units:
        report.total += 1
        example = Example(unit.source, unit.target, unit.line, path)
        if unit.fault:
            report.drop(example, unit.fault)
        elif unit.skipped:
            report.skip(example, unit.skipped, unit.languages)
        else:
            yield example


def _source(cells: SelectedCells, path: str, tags_column: str | None) -> str:
    source = resolve_path(cells.source, path)
    return with_tags(source, cells.others[tags_column]) if tags_column else source


def _heads(cells: SelectedCells, column: str) -> DependencyTree:
    return parse_heads(cells.others[column], cells.source)


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
    tags_column: str | None = None,
    languages: LanguagePair | None = None,
    report: DataReport,
) -> Iterator[Example]:
    """Yield one example per line, record or unit to translate; malformed ones become empty sources.

    A file whose suffix is neither that of a table nor that of CoNLL-U is plain text. The prefix of the output,
    if there is a column for it, becomes the target of the example; required words are in its `columns`.
    """
    format = _source_format(path, format)
    if format in ("text", "conllu"):
        sources = _text_sources(path, conllu=format == "conllu")
    elif format in ("zip", "subtitles"):
        raise SeqloomError(
            f"{display_name(path)} cannot be translated line by line: its format is {format}.",
            "unpack it, or give a text file",
        )
    elif has_units(format):
        sources = _unit_sources(path, format, languages)
    else:
        sources = _table_sources(
            path, format, source_column, prefix_column, require_column, heads_column, tags_column
        )
    for example, fault in sources:
        report.total += 1
        if fault:
            report.change(example, fault)
        yield replace(example, source="") if fault else example


def _source_format(path: str, format: Format) -> Format:
    return SUFFIXES.get(suffix(path), "text") if format == "auto" else format


def check_has_columns(path: str, format: Format, columns: Mapping[str, str | None]) -> None:
    """Raise if columns are selected, but the file to translate is not a table."""
    selected = _options(columns)
    if selected and not is_table(path, format):
        raise SeqloomError(
            f"{display_name(path)} is not a table, so {selected} cannot be used.",
            "remove the option, or set --format (tsv, csv, jsonl, parquet) if the file is a table",
        )


def is_table(path: str, format: Format) -> bool:
    """Return whether a file to translate is a table."""
    return _source_format(path, format) in TABLES


def check_tables(tables: Sequence[str], columns: Mapping[str, str | None]) -> None:
    """Raise if columns are selected, but no table is given."""
    selected = _options(columns)
    if selected and not tables:
        raise SeqloomError(
            f"{selected} cannot be used without a table.", "give a table of pairs, or remove the option"
        )


def _options(columns: Mapping[str, str | None]) -> str:
    """Return the options of the selected columns."""
    return ", ".join(f"--{name.replace('_', '-')}" for name, column in columns.items() if column is not None)


def _text_sources(path: str, *, conllu: bool) -> Iterator[tuple[Example, str]]:
    """Yield each source with its fault, if any."""
    for sentence in _sentences(path, conllu=conllu):
        source = resolve_path(sentence.text, path)
        yield Example(source, line=sentence.line, file=path, heads=sentence.heads), sentence.fault


def _unit_sources(path: str, format: Format, languages: LanguagePair | None) -> Iterator[tuple[Example, str]]:
    """Yield the source of each unit with its fault, if any; obsolete units are not part of the text."""
    others, is_empty = DataReport(), True
    for unit in read_units(path, format, languages):
        if unit.skipped not in NOT_TEXT:
            is_empty = False
            yield Example(unit.source, line=unit.line, file=path), unit.fault
        elif unit.languages:
            others.total += 1
            others.skip(Example(""), unit.skipped, unit.languages)
    if is_empty and others.total:
        raise others.no_pairs(display_name(path))


def _table_sources(
    path: str,
    format: Format,
    source_column: str | None,
    prefix_column: str | None,
    require_column: str | None,
    heads_column: str | None,
    tags_column: str | None,
) -> Iterator[tuple[Example, str]]:
    """Yield each source with its fault, if any."""
    others = [name for name in (prefix_column, require_column, heads_column, tags_column) if name]
    for row, cells in rows(path, format, ColumnSelection(source_column, [], others)):
        if isinstance(cells, str):
            yield Example(row.text, line=row.line, file=path), cells
            continue
        prefix = cells.others[prefix_column] if prefix_column else None
        example = Example(_source(cells, path, tags_column), prefix, row.line, path, cells.others)
        try:
            tree = _heads(cells, heads_column) if heads_column else None
            found, fault = replace(example, heads=tree), ""
        except Malformed as error:
            found, fault = example, str(error)
        yield found, fault


def read_parallel(source: str, target: str, report: DataReport) -> Iterator[Example]:
    """Yield the pairs of two files with the same number of lines, or of CoNLL-U sentences."""
    if source == target == "-":
        raise SeqloomError("Source and target cannot both be standard input.", "use a file for one of them")
    if all(_source_format(path, "auto") == "subtitles" for path in (source, target)):
        yield from _unit_pairs(source, read_subtitles(source, target), report)
        return
    sources, targets = (_sentences(path, conllu=is_conllu(path)) for path in (source, target))
    number = 0
    for number, (left, right) in enumerate(zip_longest(sources, targets), 1):
        if left is None or right is None:
            rest = number + sum(1 for _ in chain(sources, targets))
            counts = (number - 1, rest) if left is None else (rest, number - 1)
            unit = "sentences" if is_conllu(source) or is_conllu(target) else "lines"
            raise SeqloomError(
                f"{source} has {counts[0]:,} {unit}, but {target} has {counts[1]:,}.",
                "aligned files must have the same length; find the first line that does not match",
            )
        report.total += 1
        both = resolve_path(left.text, source), resolve_path(right.text, target)
        example = Example(*both, left.line, source, heads=left.heads)
        if fault := left.fault or right.fault:
            report.drop(example, fault)
        else:
            yield example


def _sentences(path: str, *, conllu: bool) -> Iterator[ConlluSentence]:
    """Yield the sentences of a CoNLL-U file, or the lines of any other file."""
    if conllu:
        yield from read_conllu(path)
        return
    for number, line in enumerate(lines(path), 1):
        yield ConlluSentence(number, line)
