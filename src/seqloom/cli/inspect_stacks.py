"""`seqloom inspect stacks`: how the stack decoder of a phrase-based model found a translation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.options import Style
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.inspect.stacks import StackSearch
    from seqloom.statistical.phrase.translator import PhraseTranslator


def stacks(
    run: Annotated[Path, typer.Argument(help="A run directory of a phrase-based model.")],
    text: Annotated[str, typer.Argument(help="What to translate.")],
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses that a stack keeps.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write it: .png, .svg, .pdf or .json.")] = None,
    style: Style = "page",
    json_: Annotated[bool, typer.Option("--json", help="Print it as JSON, with all future costs.")] = False,
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-1; the best one if not given.")] = None,
) -> None:
    """Show the phrases of a translation and the stacks of its search: made, recombined, pruned, kept."""
    from seqloom.inspect.stacks import StackSearch, stack_search

    check_drawing(out, style, StackSearch.formats)
    if not text.strip():
        raise SeqloomError("There is nothing to search for: the text is empty.", "give a text to translate")
    search = stack_search(_load(run, checkpoint), text, beam=beam)
    if out:
        write_drawing(search, out, style=style)
    if json_:
        print(json_text(search.to_dict()))
    else:
        _print(search)


def _load(run: Path, checkpoint: str | None) -> PhraseTranslator:
    from seqloom.loading import load
    from seqloom.statistical.phrase.translator import PhraseTranslator

    translator = load(run, checkpoint=checkpoint, device="cpu")
    if not isinstance(translator, PhraseTranslator):
        raise SeqloomError(
            f"The model of {run} has no stacks: it answers token by token.",
            f'seqloom inspect search {run} "text" shows its search',
        )
    return translator


def _print(search: StackSearch) -> None:
    """The answer, its phrases, and the stacks."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(search.answer, markup=False, highlight=False)
    phrases, stacks = Table(box=box.SIMPLE_HEAD), Table(box=box.SIMPLE_HEAD)
    for head in ("words", "source", "target", "said", "to come", "rank"):
        phrases.add_column(head, justify="left" if head in ("source", "target") else "right")
    for step in search.steps:
        place = f"{step.start + 1}" if step.stop - step.start == 1 else f"{step.start + 1}-{step.stop}"
        source, target = " ".join(search.source[step.start : step.stop]), " ".join(step.target)
        phrases.add_row(place, source, target, f"{step.score:.2f}", f"{step.future:.2f}", str(step.rank))
    for head in ("stack", "possible", "made", "recombined", "pruned", "kept", "coverages"):
        stacks.add_column(head, justify="right")
    for one in search.stacks:
        numbers = (one.words, one.offered, one.made, one.recombined, one.pruned, one.kept, one.coverages)
        stacks.add_row(*(f"{number:,}" for number in numbers))
    console.print(phrases, markup=False)
    console.print(stacks, markup=False)
    console.print(f"score {search.score:.4f}", highlight=False)
