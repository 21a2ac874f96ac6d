"""`seqloom inspect hmm`: the hidden states of one text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.options import Style
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.inspect.trellis import HiddenStates
    from seqloom.statistical.hmm.trellis import Trellis


def hmm(
    run: Annotated[Path, typer.Argument(help="A run directory of an hmm or hmm-lm model.")],
    text: Annotated[str, typer.Argument(help="The text whose states are wanted.")],
    out: Annotated[Path | None, typer.Option(help="Write the trellis: .png, .svg, .pdf or .json.")] = None,
    style: Style = "page",
    json_: Annotated[bool, typer.Option("--json", help="Print states, path and posteriors as JSON.")] = False,
) -> None:
    """Show the hidden states of a text: how probable each is at every word, and the best path."""
    from seqloom.inspect.trellis import HiddenStates

    check_drawing(out, style, HiddenStates.formats)
    states = _states(run, text)
    if out:
        write_drawing(states, out, style=style)
    if json_:
        print(json_text(states.to_dict()))
    else:
        _print(states.trellis)


def _states(folder: Path, text: str) -> HiddenStates:
    from seqloom.building import load_counting
    from seqloom.inspect.trellis import hidden_states
    from seqloom.registry import architecture
    from seqloom.run import Run
    from seqloom.statistical.hmm.trellis import HasTrellis

    run = Run.open(folder)
    name = run.config().model.name
    if architecture(name).counting:
        model, tokenizers = load_counting(run)
        if isinstance(model, HasTrellis):
            return hidden_states(model, tokenizers, text)
    raise SeqloomError(
        f"The model of {folder} ({name}) has no hidden states to show.", "give a run of hmm or hmm-lm"
    )


def _print(trellis: Trellis) -> None:
    """A line for each token: its state on the best path, how sure that is, and what else it could be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for head in ("token", "state", "P", "other states"):
        table.add_column(head, justify="right" if head == "P" else "left")
    for token, state, chances in zip(trellis.tokens, trellis.path, trellis.posteriors.tolist(), strict=True):
        order = sorted(range(len(chances)), key=lambda one: -chances[one])
        others = [one for one in order if one != state and chances[one] >= 0.01][:3]
        told = ", ".join(f"{trellis.states[one]} {chances[one]:.2f}" for one in others)
        table.add_row(token, trellis.states[state], f"{chances[state]:.2f}", told)
    console = Console()
    console.print(table, markup=False)
    console.print(f"log P(path | text) = {trellis.log_prob:.4f}", highlight=False)
