"""`seqloom inspect stacks`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Checkpoint, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.inspect.stacks import StackSearch
    from seqloom.statistical.phrase.translator import PhraseTranslator


def stacks(
    run: Annotated[Path, typer.Argument(help="Run directory of a phrase model.")],
    text: Annotated[str, typer.Argument(help="Source text.")],
    beam: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Stack size.", show_default="that of the run"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the figure: .png, .svg, .pdf, .json or .html.")
    ] = None,
    style: Style = "page",
    json_: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, with all future costs.")
    ] = False,
    checkpoint: Checkpoint = None,
) -> None:
    """Show the stack decoding of a phrase model.

    Prints the phrases of the translation, and how many hypotheses each stack created, recombined, pruned and
    kept.

    Example:
      seqloom inspect stacks runs/phrase "ein Haus" --out stacks.png
    """
    from seqloom.inspect.stacks import StackSearch, stack_search

    check_figure(out, style, StackSearch.formats)
    if not text.strip():
        raise SeqloomError("The text is empty.", "give a text to translate")
    search = stack_search(_load(run, checkpoint), text, beam=beam)
    if out:
        write_figure(search, out, style=style)
    if json_:
        print_json(search.to_dict(), compact=True)
    else:
        _print(search)


def _load(run: Path, checkpoint: str | None) -> PhraseTranslator:
    from seqloom.run.load import load
    from seqloom.statistical.phrase.translator import PhraseTranslator

    translator = load(run, checkpoint=checkpoint, device="cpu")
    if not isinstance(translator, PhraseTranslator):
        raise SeqloomError(
            f"The model of {run} is not a phrase model, so it has no stacks.",
            f'use seqloom inspect search {run} "text"',
        )
    return translator


def _print(search: StackSearch) -> None:
    """Print the translation, its phrases and the stacks."""
    phrases = new_table(
        "words", "source", "target", "score", "future", "rank", right=("words", "score", "future", "rank")
    )
    for step in search.steps:
        words = f"{step.start + 1}" if step.stop - step.start == 1 else f"{step.start + 1}-{step.stop}"
        source, target = " ".join(search.source[step.start : step.stop]), " ".join(step.target)
        phrases.add_row(words, source, target, f"{step.score:.2f}", f"{step.future:.2f}", str(step.rank))
    columns = ("stack", "possible", "created", "recombined", "pruned", "kept", "coverages")
    stacks = new_table(*columns, right=columns)
    for one in search.stacks:
        numbers = (one.words, one.offered, one.made, one.recombined, one.pruned, one.kept, one.coverages)
        stacks.add_row(*(f"{number:,}" for number in numbers))
    print_tables(search.answer, phrases, stacks, f"score {search.score:.4f}")
