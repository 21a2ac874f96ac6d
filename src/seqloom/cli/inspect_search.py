"""`seqloom inspect search`: the tree of one search, or how often beams miss the best answer."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.options import SourceColumn, Style
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

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
    style: Style = "page",
    prefix: Annotated[str, typer.Option(help="What the answer begins with.")] = "",
    heads: Annotated[
        str | None, typer.Option(help="The heads of the words, for a model that reads trees.")
    ] = None,
    errors: Annotated[str | None, typer.Option(help="Count search errors on the lines of this file.")] = None,
    source_column: SourceColumn = None,
    beams: Annotated[str, typer.Option(help="The beam sizes to compare.")] = "1,2,5,10",
    limit: Annotated[int, typer.Option(min=1, max=10**12, help="Number of lines of the file to use.")] = 100,
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
    from seqloom.inspect.searcherror import SearchErrors
    from seqloom.inspect.searchtree import SearchTree, search_tree

    if (text is None) == (errors is None):
        raise SeqloomError(
            "Give either a text, whose search is shown, or --errors FILE, whose search errors are counted.",
            'e.g. seqloom inspect search RUN "text" --out tree.html',
        )
    if errors is None:
        check_tables([], {"source_column": source_column})
    else:
        check_has_columns(errors, "auto", {"source_column": source_column})
    check_drawing(out, style, SearchTree.formats if errors is None else SearchErrors.formats)
    sizes = _beams(beams)
    translator = _load(run, set_ or [], checkpoint, device)
    found: SearchErrors | SearchTree
    if errors is not None:
        found = _errors(translator, _sources(errors, source_column, limit), sizes, expand)
    elif text and text.strip():
        found = search_tree(translator, text, beam=beam, heads=parse_tree(heads, text), prefix=prefix)
    else:
        raise SeqloomError("There is nothing to search for: the text is empty.", "give a text to translate")
    if out:
        write_drawing(found, out, style=style)
    if json_:
        print(json_text(found.to_dict(), indent=2 if errors else None))
    elif isinstance(found, SearchTree):
        _print_tree(found)
    else:
        _print_errors(found, expand)


def _beams(text: str) -> list[int]:
    """The sizes, each once, from small to large."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise SeqloomError(f"--beams {text!r} is no list of beam sizes.", "e.g. --beams 1,2,5,10")
    return sorted({int(part) for part in parts})


def _load(run: Path, assignments: list[str], checkpoint: str | None, device: str) -> TorchTranslator:
    """The run's translator with the options of the search that are assigned."""
    from seqloom.config import search_options
    from seqloom.loading import load_decoder

    options = search_options(assignments)
    return load_decoder(run, checkpoint=checkpoint, device=device, search=options)


def parse_tree(heads: str | None, text: str) -> Heads | None:
    """The tree of a text whose heads may be given."""
    from seqloom.data.syntax import parse_heads
    from seqloom.data.tables import Malformed

    try:
        return None if heads is None else parse_heads(heads, text)
    except Malformed as fault:
        raise SeqloomError(f"{heads!r} is no tree of {text!r}: {fault}.", "give one head per word") from fault


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


def _errors(translator: TorchTranslator, lines: list[str], beams: list[int], expand: int) -> SearchErrors:
    """Count the search errors of each beam."""
    from seqloom.inspect.searcherror import search_errors
    from seqloom.progress import counter

    with counter("searched", total=len(lines)) as advance:
        return search_errors(translator, lines, beams, expand=expand, on_progress=advance)


def _print_errors(found: SearchErrors, expand: int) -> None:
    from rich.console import Console

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
