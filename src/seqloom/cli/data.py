"""`seqloom data`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.commands import Command, CommandGroup
from seqloom.cli.data_clean import clean
from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Json, Languages, OutputFile, Source, SourceColumn, Style, Target, TargetColumn
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError, require_known

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.data.check import CheckResult, CorpusCheck
    from seqloom.data.config import DataConfig
    from seqloom.types import Example

app = typer.Typer(cls=CommandGroup, help="Check, clean, show, download or generate data.")

Format = Annotated[
    str | None, typer.Option(help="Format: tsv, csv, jsonl, parquet, tmx, po, ...", show_default="by suffix")
]

_COUNT = 10_000  # lines of a task, unless another number is given
_CONTRASTS = 1000  # held out from the text, unless another number is given


@app.command(cls=Command)
def check(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Tables of pairs; - is standard input.")
    ] = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    languages: Languages = None,
    format: Format = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Figure of the lengths in the first file: .png, .svg or .pdf."),
    ] = None,
    style: Style = "page",
    as_json: Json = False,
) -> None:
    """Report sizes, lengths, duplicates, defects and overlaps of files.

    The exit code is 1 if a file has no usable pair.

    Example:
      seqloom data check train.tsv test.tsv --plot lengths.png
    """
    from seqloom.data.check import check as check_corpora

    check_figure(plot, style)
    result = check_corpora(
        _corpora(files or [], source, target, source_column, target_column, languages, format)
    )
    if plot:
        from seqloom.inspect.lengths import LengthHistograms

        first = result.corpora[0]
        words = {name.replace("_", " "): n.histogram for name, n in first.lengths.items() if "words" in name}
        names = ", ".join(Path(part).name for part in first.name.split(" | "))
        title = f"Lengths of {first.pairs:,} pairs: {names}"
        write_figure(LengthHistograms(words), plot, style=style, title=title)
    if as_json:
        print_json(result.as_dict())
    else:
        _print_check(result)
    if not all(corpus.pairs for corpus in result.corpora):
        raise typer.Exit(1)


app.command("clean", cls=Command)(clean)


@app.command(cls=Command)
def show(
    file: Annotated[str | None, typer.Argument(help="Table of pairs; - is standard input.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, metavar="N", help="Number of pairs.")] = 10,
    random: Annotated[bool, typer.Option("--random", help="Show random pairs instead of the first.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed for --random.")] = 0,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    languages: Languages = None,
    format: Format = None,
    as_json: Json = False,
) -> None:
    """Show some pairs side by side.

    Example:
      seqloom data show train.tsv --random --count 5
    """
    from seqloom.data.readers import read_corpus
    from seqloom.data.report import DataReport

    files = [] if file is None else [file]
    config, *more = _corpora(files, source, target, source_column, target_column, languages, format)
    if more:
        raise SeqloomError("More than one corpus given.", "give a table, or --source and --target")
    report = DataReport()
    examples = read_corpus(config, "train", report)
    chosen = _sample(examples, count, Random(seed)) if random else _first(examples, count)
    if as_json:
        print_json(
            [{"line": e.line, "source": e.source, "target": e.target, **_extra_columns(e)} for e in chosen]
        )
    else:
        _print_examples(chosen)
    if report.dropped:
        typer.echo(report.summary(), err=True)


@app.command("list", cls=Command)
def list_(as_json: Json = False) -> None:
    """List the public data sets."""
    from seqloom.data.datasets import DATASETS

    if as_json:
        print_json([asdict(dataset) for dataset in DATASETS.values()])
        return
    table = new_table("name", "description", "licence", "size", right=("size",))
    for dataset in DATASETS.values():
        size = sum(file.size for file in dataset.files) / 1e6
        table.add_row(dataset.name, dataset.summary, dataset.licence, f"{size:.1f} MB")
    print_tables(table)


@app.command(cls=Command)
def get(
    name: Annotated[str, typer.Argument(help="Name of a data set; see seqloom data list.")],
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the files.", show_default="the cache")
    ] = None,
    address: Annotated[str | None, typer.Option(metavar="URL", help="Mirror to download from.")] = None,
) -> None:
    """Download a public data set and print the paths of its files.

    An interrupted download is continued.

    Example:
      seqloom data get multi30k --to data
    """
    from seqloom.data import datasets
    from seqloom.system import cache_folder

    folder = to or cache_folder() / "data" / datasets.dataset(name).name
    with _download_bars() as on_progress:
        paths = datasets.get(name, folder, address=address, on_progress=on_progress)
    for path in paths:
        typer.echo(path)


@app.command(cls=Command)
def make(
    task: Annotated[
        str,
        typer.Argument(
            help="Task: copy, reverse, sort, addition, recall, needles, dates, numbers, docstrings or gettext. "
            "Text tasks: agreement, tickets."
        ),
    ],
    count: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of pairs.", show_default="10,000; docstrings, gettext: all"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 1,
    out: OutputFile = None,
    languages: Languages = None,
    contrast: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File for contrasts that are not in the text, for seqloom evaluate --contrast."
        ),
    ] = None,
    contrasts: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of contrasts.", show_default="1000")
    ] = None,
) -> None:
    """Generate pairs of a synthetic task, or a text.

    Writes pairs as TSV, and texts with a file of contrasts for seqloom evaluate --contrast.

    docstrings collects pairs of description and first line from the docstrings of the installed packages. Its
    --out is a folder for train.tsv, valid.tsv and test.tsv, which have no package in common, and report.json.

    gettext collects the translated texts of the installed packages, in the same way, from their locale files.

    Examples:
      seqloom data make reverse --count 20000 --out reverse.tsv
      seqloom data make agreement --out text.txt --contrast contrasts.tsv
      seqloom data make docstrings --out docstrings
      seqloom data make gettext --languages en-de --out gettext
    """
    from seqloom.data.tasks import TASKS, generate
    from seqloom.data.tasks.contrastive import CONTRASTIVE_TASKS
    from seqloom.outputs import output

    require_known("task", task, [*TASKS, "docstrings", "gettext", *CONTRASTIVE_TASKS])
    if contrasts is not None and contrast is None:
        raise SeqloomError("--contrasts needs a file for the contrasts.", "add --contrast FILE")
    if contrast is not None and task not in CONTRASTIVE_TASKS:
        raise SeqloomError(
            f"The task {task} has no contrasts.", f"use one of {', '.join(CONTRASTIVE_TASKS)}, or leave it out"
        )
    if languages is not None and task != "gettext":
        raise SeqloomError(f"The task {task} has no languages to choose.", "leave out --languages")
    if task == "gettext":
        _make_gettext(out, languages, seed, count)
        return
    if task == "docstrings":
        _make_docstrings(out, seed, count)
        return
    if task in CONTRASTIVE_TASKS:
        _make_text(task, count or _COUNT, seed, out, contrast, contrasts or _CONTRASTS)
        return
    examples = generate(task, count or _COUNT, seed)
    with output(out) as file:
        for example in examples:
            file.write(f"{example.source}\t{example.target}\n")


def _make_text(
    task: str, count: int, seed: int, out: Path | None, contrast: Path | None, contrasts: int
) -> None:
    """Write the text of a task and, if a file for them is given, contrasts that are not in the text."""
    from seqloom.data.contrasts import write_contrasts
    from seqloom.data.tasks.contrastive import generate_contrasts
    from seqloom.outputs import output

    held_out = contrasts if contrast else 0
    drawn = list(generate_contrasts(task, count + held_out, seed))
    with output(out) as file:
        file.writelines(f"{one.right}\n" for one in drawn[held_out:])
    if contrast:  # drawn first, so that short sentences are not all in the text
        write_contrasts(contrast, drawn[:held_out])


def _make_gettext(out: Path | None, languages: str | None, seed: int, count: int | None) -> None:
    from seqloom.gettext_corpus import check_languages, make_gettext
    from seqloom.languages import LanguagePair

    pair = check_languages(LanguagePair.parse(languages) if languages else None)
    if out is None:
        raise SeqloomError("The task gettext writes several files.", "name a folder: --out gettext")
    typer.echo(make_gettext(out, pair, seed=seed, count=count).summary(), err=True)


def _make_docstrings(out: Path | None, seed: int, count: int | None) -> None:
    from seqloom.docstrings import make_docstrings

    if out is None:
        raise SeqloomError("The task docstrings writes several files.", "name a folder: --out docstrings")
    counts = make_docstrings(out, seed=seed, count=count)
    typer.echo(counts.summary(), err=True)


def _corpora(
    files: list[str],
    source: str | None,
    target: str | None,
    source_column: str | None,
    target_column: str | None,
    languages: str | None,
    format: str | None,
) -> list[DataConfig]:
    """Return a configuration for each table, and one for the two parallel files."""
    from seqloom.data.config import DataConfig
    from seqloom.data.readers import check_tables

    if not files and source is None and target is None:
        raise SeqloomError("No file given.", "give a table of pairs, or --source and --target")
    columns = {"source_column": source_column, "target_column": target_column}
    options = {**columns, "languages": languages, "format": format}
    given = {key: value for key, value in options.items() if value is not None}
    check_tables(files, columns)
    corpora = [DataConfig.checked({"train": file, **given}, "data") for file in files]
    if source is not None or target is not None:
        corpora.append(DataConfig.checked({"source": source, "target": target}, "data"))
    return corpora


def _first(examples: Iterator[Example], count: int) -> list[Example]:
    return [example for _, example in zip(range(count), examples, strict=False)]


def _sample(examples: Iterator[Example], count: int, random: Random) -> list[Example]:
    """Return a uniform sample of a stream of unknown length, in its order (reservoir sampling)."""
    chosen: list[Example] = []
    for number, example in enumerate(examples):
        if number < count:
            chosen.append(example)
        elif (index := random.randint(0, number)) < count:
            chosen[index] = example
    return sorted(chosen, key=lambda example: example.line)


def _extra_columns(example: Example) -> dict[str, Any]:
    return {"columns": dict(example.columns)} if example.columns else {}


def _print_examples(examples: list[Example]) -> None:
    from rich.text import Text

    table = new_table("line", "source", "target", right=("line",))
    for example in examples:
        table.add_row(str(example.line), Text(_visible(example.source)), Text(_visible(example.target or "")))
    print_tables(table)


def _visible(text: str) -> str:
    """Return the text with control characters escaped."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


def _print_check(result: CheckResult) -> None:
    for corpus in result.corpora:
        print_tables(_lengths_table(corpus), _findings_table(corpus))
    if result.overlaps:
        columns = ("first", "second", "sources", "pairs", "of second", "lines of second")
        table = new_table(*columns, title="Overlap")
        for o in result.overlaps:
            share = f"{o.share_of_second:.1%}"
            table.add_row(
                o.first, o.second, f"{o.shared_sources:,}", f"{o.shared_pairs:,}", share, _joined(o.lines)
            )
        print_tables(table)


def _lengths_table(corpus: CorpusCheck) -> Table:
    title = (
        f"{corpus.name}: {corpus.lines:,} lines, {corpus.pairs:,} pairs, {corpus.distinct_pairs:,} distinct; "
        f"{corpus.distinct_sources:,} distinct sources"
    )
    numbers = ("min", "median", "mean", "95 %", "max")
    table = new_table("length", *numbers, "histogram (powers of 2)", title=title, right=numbers)
    for kind, lengths in corpus.lengths.items():
        values = (lengths.min, lengths.median, lengths.mean, lengths.p95, lengths.max)
        highest = max(lengths.histogram.values())
        bars = "".join("▁▂▃▄▅▆▇█"[count * 7 // highest] for count in lengths.histogram.values())
        first, *_, last = [*lengths.histogram, *lengths.histogram]  # one bucket is both
        table.add_row(kind.replace("_", " "), *(f"{v:,.4g}" for v in values), f"{first} {bars} {last}")
    return table


def _findings_table(corpus: CorpusCheck) -> Table:
    from rich.text import Text

    table = new_table("finding", "lines", "share", "first lines", right=("lines", "share"))
    for name, finding in corpus.findings.items():
        share = f"{finding.count / max(corpus.lines, 1):.2%}" if finding.count else ""
        table.add_row(name.replace("_", " "), f"{finding.count:,}", share, _joined(finding.lines))
        for reason, one in corpus.malformed.items() if name == "malformed" else ():
            table.add_row(Text(f"  {reason}"), f"{one.count:,}", "", _joined(one.lines))
    table.add_row("typical target/source ratio", f"{corpus.typical_ratio:.2f}", "", "in characters")
    return table


def _joined(lines: list[int]) -> str:
    return ", ".join(map(str, lines))


@contextlib.contextmanager
def _download_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows the progress of downloads, with one bar per file."""
    from seqloom.progress import ProgressBar, megabytes

    bars: dict[str, ProgressBar] = {}
    with contextlib.ExitStack() as stack:

        def on_progress(name: str, done: int, size: int) -> None:
            if name not in bars:
                stack.close()  # one bar at a time
                bars[name] = stack.enter_context(ProgressBar(name, size, describe=megabytes, keep=True))
            bars[name].update(done)

        yield on_progress
