"""`seqloom data`: look at a corpus, fetch a public one, or make one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.options import Source, SourceColumn, Style, Target, TargetColumn
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.data.check import CheckResult, CorpusCheck
    from seqloom.data.config import DataConfig
    from seqloom.types import Example

app = typer.Typer(no_args_is_help=True, help="Look at data, fetch public data sets, make generated tasks.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Format = Annotated[str | None, typer.Option(help="tsv, csv, jsonl or parquet; otherwise by the suffix.")]


@app.command()
def check(
    files: Annotated[list[str] | None, typer.Argument(help="Tables of pairs; - is standard input.")] = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    format: Format = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the lengths of the first file: .png, .svg.")] = None,
    style: Style = "page",
    as_json: Json = False,
) -> None:
    """Report counts, lengths, duplicates, oddities, and what the files share with each other.

    The exit code is 1 if a file has no pair that can be used.
    """
    from seqloom.data.check import check as run

    check_drawing(plot, style)
    result = run(_corpora(files or [], source, target, source_column, target_column, format))
    if plot:
        from seqloom.inspect.lengths import LengthHistograms

        first = result.corpora[0]
        words = {name.replace("_", " "): n.histogram for name, n in first.lengths.items() if "words" in name}
        names = ", ".join(Path(part).name for part in first.name.split(" | "))
        title = f"Lengths of {first.pairs:,} pairs: {names}"
        write_drawing(LengthHistograms(words), plot, style=style, title=title)
    if as_json:
        _print_json(result.as_dict())
    else:
        _print_check(result)
    if not all(corpus.pairs for corpus in result.corpora):
        raise typer.Exit(1)


@app.command()
def show(
    file: Annotated[str | None, typer.Argument(help="A table of pairs; - is standard input.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many.")] = 10,
    random: Annotated[bool, typer.Option("--random", help="Random ones in place of the first.")] = False,
    seed: Annotated[int, typer.Option(help="Which random ones.")] = 0,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    format: Format = None,
    as_json: Json = False,
) -> None:
    """A few pairs, side by side."""
    from seqloom.data.readers import read_corpus
    from seqloom.data.report import DataReport

    files = [] if file is None else [file]
    config, *more = _corpora(files, source, target, source_column, target_column, format)
    if more:
        raise SeqloomError("One corpus at a time can be shown.", "give a table, or --source and --target")
    report = DataReport()
    examples = read_corpus(config, "train", report)
    chosen = _sample(examples, count, Random(seed)) if random else _first(examples, count)
    if as_json:
        _print_json([{"line": e.line, "source": e.source, "target": e.target, **_others(e)} for e in chosen])
    else:
        _print_examples(chosen)
    if report.dropped:
        typer.echo(report.summary(), err=True)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """The public data sets that `get` knows."""
    from seqloom.data.datasets import DATASETS

    if as_json:
        _print_json([asdict(dataset) for dataset in DATASETS.values()])
        return
    table = _table("name", "what", "licence", "size")
    for dataset in DATASETS.values():
        size = sum(file.size for file in dataset.files) / 1e6
        table.add_row(dataset.name, dataset.summary, dataset.licence, f"{size:.1f} MB")
    _print(table)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="One of `seqloom data list`.")],
    to: Annotated[Path | None, typer.Option(help="A folder; otherwise the cache.")] = None,
    address: Annotated[str | None, typer.Option(help="A mirror of the data set's address.")] = None,
) -> None:
    """Fetches a public data set, continuing where it broke off, and prints the paths of its files."""
    from seqloom.data import datasets
    from seqloom.machine import cache_folder

    folder = to or cache_folder() / "data" / datasets.dataset(name).name
    with _progress() as on_progress:
        paths = datasets.get(name, folder, address=address, on_progress=on_progress)
    for path in paths:
        typer.echo(path)


@app.command()
def make(
    task: Annotated[str, typer.Argument(help="copy, reverse, sort, addition, recall, needles, dates, numbers")],
    count: Annotated[int, typer.Option(min=1, help="How many pairs.")] = 10_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same pairs.")] = 1,
    out: Annotated[Path | None, typer.Option(help="A TSV file; otherwise standard output.")] = None,
) -> None:
    """Writes pairs of a generated task as TSV."""
    from seqloom.data.tasks import generate
    from seqloom.outputs import output

    examples = generate(task, count, seed)
    with output(out) as file:
        for example in examples:
            file.write(f"{example.source}\t{example.target}\n")


# From options to data


def _corpora(
    files: list[str],
    source: str | None,
    target: str | None,
    source_column: str | None,
    target_column: str | None,
    format: str | None,
) -> list[DataConfig]:
    """One configuration per table, and one for the two aligned files."""
    from seqloom.data.config import DataConfig
    from seqloom.data.readers import check_tables

    if not files and source is None and target is None:
        raise SeqloomError("No file is given.", "name a table of pairs, or --source and --target")
    options = {"source_column": source_column, "target_column": target_column, "format": format}
    given = {key: value for key, value in options.items() if value is not None}
    check_tables(files, {"source_column": source_column, "target_column": target_column})
    corpora = [DataConfig.checked({"train": file, **given}, "data") for file in files]
    if source is not None or target is not None:
        corpora.append(DataConfig.checked({"source": source, "target": target}, "data"))
    return corpora


def _first(examples: Iterator[Example], count: int) -> list[Example]:
    return [example for _, example in zip(range(count), examples, strict=False)]


def _sample(examples: Iterator[Example], count: int, random: Random) -> list[Example]:
    """Examples drawn evenly from a stream of unknown length, in its order (reservoir sampling)."""
    chosen: list[Example] = []
    for number, example in enumerate(examples):
        if number < count:
            chosen.append(example)
        elif (place := random.randint(0, number)) < count:
            chosen[place] = example
    return sorted(chosen, key=lambda example: example.line)


def _others(example: Example) -> dict[str, Any]:
    return {"columns": dict(example.columns)} if example.columns else {}


# From data to the screen


def _print_json(value: Any) -> None:
    typer.echo(json_text(value, indent=2))


def _print(*tables: Table) -> None:
    from rich.console import Console

    console = Console(markup=False)  # a file may be called [b].tsv
    for table in tables:
        console.print(table)


def _table(*columns: str, title: str = "", right: tuple[str, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _print_examples(examples: list[Example]) -> None:
    from rich.text import Text

    table = _table("line", "source", "target", right=("line",))
    for example in examples:
        table.add_row(str(example.line), Text(_visible(example.source)), Text(_visible(example.target or "")))
    _print(table)


def _visible(text: str) -> str:
    """The text with its control characters spelt out."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


def _print_check(result: CheckResult) -> None:
    for corpus in result.corpora:
        _print(_lengths_table(corpus), _findings_table(corpus))
    if result.overlaps:
        table = _table("first", "second", "sources", "pairs", "of second", "lines of second", title="Shared")
        for o in result.overlaps:
            share = f"{o.share_of_second:.1%}"
            table.add_row(
                o.first, o.second, f"{o.shared_sources:,}", f"{o.shared_pairs:,}", share, _some(o.lines)
            )
        _print(table)


def _lengths_table(corpus: CorpusCheck) -> Table:
    title = (
        f"{corpus.name}: {corpus.lines:,} lines, {corpus.pairs:,} pairs, {corpus.distinct_pairs:,} different; "
        f"{corpus.distinct_sources:,} different sources"
    )
    numbers = ("min", "median", "mean", "95 %", "max")
    table = _table("length", *numbers, "by powers of two", title=title, right=numbers)
    for kind, lengths in corpus.lengths.items():
        values = (lengths.min, lengths.median, lengths.mean, lengths.p95, lengths.max)
        most = max(lengths.histogram.values())
        bars = "".join("▁▂▃▄▅▆▇█"[count * 7 // most] for count in lengths.histogram.values())
        first, *_, last = [*lengths.histogram, *lengths.histogram]  # one bucket is both
        table.add_row(kind.replace("_", " "), *(f"{v:,.4g}" for v in values), f"{first} {bars} {last}")
    return table


def _findings_table(corpus: CorpusCheck) -> Table:
    from rich.text import Text

    table = _table("finding", "lines", "share", "the first of them", right=("lines", "share"))
    for name, finding in corpus.findings.items():
        share = f"{finding.count / max(corpus.lines, 1):.2%}" if finding.count else ""
        table.add_row(name.replace("_", " "), f"{finding.count:,}", share, _some(finding.lines))
        for reason, one in corpus.malformed.items() if name == "malformed" else ():
            table.add_row(Text(f"  {reason}"), f"{one.count:,}", "", _some(one.lines))
    table.add_row("typical target/source ratio", f"{corpus.typical_ratio:.2f}", "", "in characters")
    return table


def _some(lines: list[int]) -> str:
    return ", ".join(map(str, lines))


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """A callback that draws one bar per file on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars: dict[str, Any] = {}

        def on_progress(name: str, done: int, size: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name, total=size)
            progress.update(bars[name], completed=done)

        yield on_progress
