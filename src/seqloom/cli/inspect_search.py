"""`seqloom inspect search`: the search tree of a text, or the search errors of several beam sizes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.inspect_verdict import print_verdict
from seqloom.cli.options import Checkpoint, Device, Json, Run, SetSearch, SourceColumn, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.decode.torch_translator import TorchTranslator
    from seqloom.inspect.searcherror import SearchErrors
    from seqloom.inspect.searchtree import SearchTree
    from seqloom.types import DependencyTree


def search(
    run: Run,
    text: Annotated[str | None, typer.Argument(help="Source text.")] = None,
    beam: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Beam size; 1 is greedy search.", show_default="that of the run"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the search tree: .html, .json, .png, .svg or .pdf."),
    ] = None,
    style: Style = "page",
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Translation to judge: why is it not the output?"),
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Beginning of the output.")] = "",
    heads: Annotated[
        str | None, typer.Option(help="Dependency heads of the source words, for models that read trees.")
    ] = None,
    errors: Annotated[
        str | None, typer.Option(metavar="FILE", help="File on whose lines to count search errors.")
    ] = None,
    source_column: SourceColumn = None,
    beams: Annotated[
        str, typer.Option(metavar="SIZES", help="With --errors: beam sizes to compare.")
    ] = "1,2,5,10",
    limit: Annotated[
        int, typer.Option(min=1, max=10**12, metavar="N", help="With --errors: number of lines to use.")
    ] = 100,
    expand: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="With --errors: hypotheses to expand per line to find the best output."
        ),
    ] = 1000,
    set_: SetSearch = None,
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show the beam search for a translation.

    Shows which hypotheses were kept and pruned, and where the output was closest to being pruned. With
    --errors: how often the output of each beam size scores lower than the best known output. With --target:
    the score of a translation of your own, where it leaves the beam, and the smallest beam that keeps it.

    Examples:
      seqloom inspect search runs/de-en "ein Haus" --out tree.html
      seqloom inspect search runs/de-en "ein Haus" --target "one house"
      seqloom inspect search runs/de-en --errors test.de --beams 1,5,20
    """
    from seqloom.data.readers import check_has_columns, check_tables
    from seqloom.inspect.searcherror import SearchErrors
    from seqloom.inspect.searchtree import SearchTree, search_tree

    if (text is None) == (errors is None):
        raise SeqloomError(
            "Give either a text or --errors FILE.",
            'e.g. seqloom inspect search RUN "text" --out tree.html',
        )
    if errors is None:
        check_tables([], {"source_column": source_column})
    else:
        check_has_columns(errors, "auto", {"source_column": source_column})
    check_figure(out, style, SearchTree.formats if errors is None else SearchErrors.formats)
    if target is not None:
        if text is None or out or prefix or heads or set_:
            raise SeqloomError(
                "--target belongs to a text, and excludes --errors, --out, --prefix, --heads and --set.",
                'e.g. seqloom inspect search RUN "text" --target "translation"',
            )
        print_verdict(
            run, {"text": text, "target": target, "beam": beam, "checkpoint": checkpoint}, device, json_
        )
        return
    sizes = _beams(beams)
    translator = _load(run, set_ or [], checkpoint, device)
    result: SearchErrors | SearchTree
    if errors is not None:
        result = _errors(translator, _sources(run, errors, source_column, limit), sizes, expand)
    elif text and text.strip():
        result = search_tree(translator, text, beam=beam, heads=parse_tree(heads, text), prefix=prefix)
    else:
        raise SeqloomError("The text is empty.", "give a text to translate")
    if out:
        write_figure(result, out, style=style)
    if json_:
        print_json(result.to_dict(), compact=not errors)
    elif isinstance(result, SearchTree):
        _print_tree(result)
    else:
        _print_errors(result, expand)


def _beams(text: str) -> list[int]:
    """Return the distinct beam sizes in ascending order."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise SeqloomError(f"--beams must be a list of beam sizes, got {text!r}.", "e.g. --beams 1,2,5,10")
    return sorted({int(part) for part in parts})


def _load(run: Path, assignments: list[str], checkpoint: str | None, device: str) -> TorchTranslator:
    """Return the translator of the run with the given search options."""
    from seqloom.run.config import search_options
    from seqloom.run.load import load_decoder

    options = search_options(assignments)
    return load_decoder(run, checkpoint=checkpoint, device=device, search=options)


def parse_tree(heads: str | None, text: str) -> DependencyTree | None:
    """Return the dependency tree of a text if its heads are given."""
    from seqloom.data.records import Malformed
    from seqloom.data.syntax import parse_heads

    try:
        return None if heads is None else parse_heads(heads, text)
    except Malformed as fault:
        raise SeqloomError(
            f"--heads {heads!r} is not a dependency tree of {text!r}: {fault}.", "give one head per word"
        ) from fault


def _print_tree(tree: SearchTree) -> None:
    """Print the output, and for each of its tokens how close it was to being pruned."""
    numbers = ("log P", "total", "rank", "margin")
    table = new_table("token", *numbers, "", right=numbers)
    for node, one in zip(tree.winner, tree.survival, strict=True):
        margin = "" if one.margin is None else f"{one.margin:.2f}"
        note = "closest to being pruned" if one == tree.nearest else ""
        table.add_row(node.token, f"{node.log_prob:.2f}", f"{node.total:.2f}", str(node.rank), margin, note)
    ending = "" if tree.finished else ", truncated at the maximum length"
    print_tables(tree.answer, table, f"score {tree.score:.4f}, beam {tree.beam}{ending}")


def _sources(run: Path, file: str, column: str | None, limit: int) -> list[str]:
    """Return the first sources of a file, with the context of the run."""
    from seqloom.data.context import with_context
    from seqloom.data.readers import read_source
    from seqloom.data.report import DataReport
    from seqloom.run.directory import Run

    report = DataReport()
    examples = read_source(file, source_column=column, report=report)
    examples = with_context(examples, Run.open(run).config().data.context, report)
    return [example.source for example in islice(examples, limit)]


def _errors(translator: TorchTranslator, lines: list[str], beams: list[int], expand: int) -> SearchErrors:
    """Count the search errors of each beam size."""
    from seqloom.inspect.searcherror import search_errors
    from seqloom.progress import counter

    with counter("searched", total=len(lines)) as advance:
        return search_errors(translator, lines, beams, expand=expand, on_progress=advance)


def _print_errors(result: SearchErrors, expand: int) -> None:
    print_tables(_errors_table(result), _proofs(result, expand))


def _errors_table(result: SearchErrors) -> Table:
    columns = ("beam", "errors", "share", "mean score difference")
    table = new_table(*columns, title=f"Search errors on {result.sentences} sentences", right=columns)
    at_least = "≥ " if result.proved < result.sentences else ""
    for one in result.beams:
        gap = "" if one.gap is None else f"{one.gap:.4f}"
        table.add_row(str(one.beam), f"{at_least}{one.missed}", f"{at_least}{one.share:.1%}", gap)
    return table


def _proofs(result: SearchErrors, expand: int) -> str:
    """Return an explanation of the outputs with which the table compares."""
    empty = f" ({result.proved_empty} of them empty)" if result.proved_empty else ""
    proved = f"The best output is known for {result.proved} of {result.sentences} sentences{empty}"
    if result.proved == result.sentences:
        return f"{proved}."
    return (
        f"{proved}, from expanding up to {expand} hypotheses each. The others are compared with the best "
        "output of all beam sizes, so their errors are a lower bound."
    )
