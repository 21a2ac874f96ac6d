"""`seqloom inspect search`: the tree of one search, or how often beams miss the best answer."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import SourceColumn
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.decode.torch_translator import TorchTranslator
    from seqloom.inspect.searcherror import SearchErrors
    from seqloom.inspect.searchtree import SearchTree
    from seqloom.types import Heads


def search(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    text: Annotated[str | None, typer.Argument(help="What to translate.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the tree: .html, .json, or a picture .png, .svg, .pdf.")
    ] = None,
    prefix: Annotated[str, typer.Option(help="What the answer begins with.")] = "",
    heads: Annotated[
        str | None, typer.Option(help="The heads of the words, for a model that reads trees.")
    ] = None,
    errors: Annotated[str | None, typer.Option(help="Count search errors on the lines of this file.")] = None,
    source_column: SourceColumn = None,
    beams: Annotated[str, typer.Option(help="The beam sizes to compare.")] = "1,2,5,10",
    limit: Annotated[int, typer.Option(min=1, help="How many lines of the file.")] = 100,
    expand: Annotated[
        int, typer.Option(min=1, help="Hypotheses to continue for the proof of a best one.")
    ] = 1000,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the search, e.g. search.length_norm=none.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the tree, or the errors, as JSON.")] = False,
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-500; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Show the search for an answer: what was kept and pruned, and where the answer was nearly lost.

    With --errors FILE: how often each beam's answer scores lower than the best that is known.
    """
    from seqloom.data.readers import check_has_columns, check_tables

    if (text is None) == (errors is None):
        raise SeqloomError(
            "Give either a text, whose search is shown, or --errors FILE, whose search errors are counted.",
            'e.g. seqloom inspect search RUN "text" --out tree.html',
        )
    if out and errors is not None:
        raise SeqloomError("--out draws one search; search errors are printed.", "leave it out, or use --json")
    if errors is None:
        check_tables([], {"source_column": source_column})
    else:
        check_has_columns(errors, "auto", {"source_column": source_column})
    _check_out(out)
    sizes = _beams(beams)
    translator = _load(run, set_ or [], checkpoint, device)
    if errors is not None:
        sources = _sources(errors, source_column, limit)
        _errors(translator, sources, sizes, expand=expand, as_json=json_)
    elif text is not None:
        _tree(translator, text, beam=beam, prefix=prefix, heads=heads, out=out, as_json=json_)


def _check_out(out: Path | None) -> None:
    """Raises before the work if the tree could not be written."""
    from seqloom.inspect.picture import SUFFIXES, new_figure
    from seqloom.outputs import check_can_write

    if out is None:
        return
    suffix = out.suffix.lower()
    if suffix not in (".html", ".json", *SUFFIXES):
        raise SeqloomError(
            f"A search tree cannot be written as {out.suffix or 'a file without suffix'}: {out}.",
            f"end the name in .html, .json, {', '.join(SUFFIXES)}",
        )
    check_can_write(out)
    if suffix in SUFFIXES:
        new_figure(1, 1)  # tells if matplotlib is missing


def _beams(text: str) -> list[int]:
    """The sizes, each once, from small to large."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise SeqloomError(f"--beams {text!r} is no list of beam sizes.", "e.g. --beams 1,2,5,10")
    return sorted({int(part) for part in parts})


def _load(run: Path, assignments: list[str], checkpoint: str | None, device: str) -> TorchTranslator:
    """The run's translator with the options of the search that are assigned."""
    from seqloom.config import search_options
    from seqloom.decode.config import SearchConfig
    from seqloom.loading import load_decoder

    options = search_options(assignments)
    translator = load_decoder(run, checkpoint=checkpoint, device=device)
    translator.search = SearchConfig.checked({**translator.search.model_dump(), **options}, "search")
    return translator


def _tree(
    translator: TorchTranslator,
    text: str,
    *,
    beam: int | None,
    prefix: str,
    heads: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    from seqloom.inspect.searchtree import search_tree

    if not text.strip():
        raise SeqloomError("There is nothing to search for: the text is empty.", "give a text to translate")
    tree = search_tree(translator, text, beam=beam, heads=parse_tree(heads, text), prefix=prefix)
    if out:
        _write(tree, out)
    if as_json:
        print(json.dumps(tree.as_dict(), ensure_ascii=False))
    else:
        _print_tree(tree)


def parse_tree(heads: str | None, text: str) -> Heads | None:
    """The tree of a text whose heads may be given."""
    from seqloom.data.syntax import parse_heads
    from seqloom.data.tables import Malformed

    try:
        return None if heads is None else parse_heads(heads, text)
    except Malformed as fault:
        raise SeqloomError(f"{heads!r} is no tree of {text!r}: {fault}.", "give one head per word") from fault


def _write(tree: SearchTree, out: Path) -> None:
    from seqloom.inspect.searchtree_page import tree_page
    from seqloom.inspect.searchtree_picture import tree_picture
    from seqloom.outputs import write_output

    suffix = out.suffix.lower()
    if suffix == ".html":
        write_output(out, tree_page(tree))
    elif suffix == ".json":
        write_output(out, json.dumps(tree.as_dict(), ensure_ascii=False) + "\n")
    else:
        tree_picture(tree, out)


def _print_tree(tree: SearchTree) -> None:
    """The answer, and a line for each of its tokens: how it came through."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(tree.answer, markup=False, highlight=False)
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("token", "log P", "so far", "rank", "margin", ""):
        table.add_column(head, justify="left" if head in ("token", "") else "right")
    for node, one in zip(tree.winner, tree.survival, strict=True):
        margin = "" if one.margin is None else f"{one.margin:.2f}"
        note = "nearest to being lost" if one == tree.nearest else ""
        table.add_row(node.token, f"{node.log_prob:.2f}", f"{node.total:.2f}", str(node.rank), margin, note)
    console.print(table, markup=False)
    ending = "" if tree.finished else ", cut at the maximum length"
    console.print(f"score {tree.score:.4f}, beam {tree.beam}{ending}", highlight=False)


def _sources(file: str, column: str | None, limit: int) -> list[str]:
    """Return the first sources of a file."""
    from seqloom.data.readers import read_source
    from seqloom.data.report import DataReport

    examples = read_source(file, source_column=column, report=DataReport())
    return [example.source for example in islice(examples, limit)]


def _errors(
    translator: TorchTranslator, lines: list[str], beams: list[int], *, expand: int, as_json: bool
) -> None:
    from rich.console import Console

    from seqloom.inspect.searcherror import search_errors
    from seqloom.progress import counter

    with counter("searched", total=len(lines)) as advance:
        found = search_errors(translator, lines, beams, expand=expand, on_progress=advance)
    if as_json:
        print(json.dumps(asdict(found), indent=2))
        return
    console = Console()
    console.print(_errors_table(found))
    console.print(_proofs(found, expand), highlight=False)


def _errors_table(found: SearchErrors) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title=f"search errors, {found.sentences} sentences", title_justify="left", box=box.SIMPLE_HEAD
    )
    for head in ("beam", "missed", "share", "mean gap in score"):
        table.add_column(head, justify="right")
    least = "≥ " if found.proved < found.sentences else ""
    for one in found.beams:
        gap = "" if one.gap is None else f"{one.gap:.4f}"
        table.add_row(str(one.beam), f"{least}{one.missed}", f"{least}{one.share:.1%}", gap)
    return table


def _proofs(found: SearchErrors, expand: int) -> str:
    """What the table is measured against."""
    empty = f" ({found.proved_empty} of them empty)" if found.proved_empty else ""
    proved = f"The best answer is proved for {found.proved} of {found.sentences} sentences{empty}"
    if found.proved == found.sentences:
        return f"{proved}."
    return (
        f"{proved}, by continuing up to {expand} hypotheses each; for the others the best answer of all beams "
        "stands in, so that they missed at least so many."
    )
