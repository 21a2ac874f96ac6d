"""`seqloom inspect hmm`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Json, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.inspect.trellis import HiddenStates
    from seqloom.statistical.hmm.trellis import Trellis


def hmm(
    run: Annotated[Path, typer.Argument(help="Run directory of an hmm or hmm-lm model.")],
    text: Annotated[str, typer.Argument(help="Text to analyse.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the trellis: .png, .svg, .pdf, .json or .html."),
    ] = None,
    style: Style = "page",
    json_: Json = False,
) -> None:
    """Show the hidden states of a text.

    Prints the posterior probability of the states at every word, and the best path (Viterbi).

    Example:
      seqloom inspect hmm runs/tagger "the cat sleeps" --out trellis.png
    """
    from seqloom.inspect.trellis import HiddenStates

    check_figure(out, style, HiddenStates.formats)
    states = _states(run, text)
    if out:
        write_figure(states, out, style=style)
    if json_:
        print_json(states.to_dict(), compact=True)
    else:
        _print(states.trellis)


def _states(folder: Path, text: str) -> HiddenStates:
    from seqloom.inspect.trellis import hidden_states
    from seqloom.registry import architecture
    from seqloom.run.build import load_fitted
    from seqloom.run.directory import Run
    from seqloom.statistical.hmm.trellis import HasTrellis

    run = Run.open(folder)
    name = run.config().model.name
    if architecture(name).fitted:
        model, tokenizers = load_fitted(run)
        if isinstance(model, HasTrellis):
            return hidden_states(model, tokenizers, text)
    raise SeqloomError(
        f"The model of {folder} ({name}) has no hidden states.", "use a run of --model hmm or hmm-lm"
    )


def _print(trellis: Trellis) -> None:
    """Print a line per token: its state on the best path with its posterior, and other probable states."""
    table = new_table("token", "state", "P", "other states", right=("P",))
    for token, state, posteriors in zip(trellis.tokens, trellis.path, trellis.posteriors.tolist(), strict=True):
        ranked = sorted(range(len(posteriors)), key=lambda other: -posteriors[other])
        probable = [other for other in ranked if other != state and posteriors[other] >= 0.01][:3]
        others = ", ".join(f"{trellis.states[other]} {posteriors[other]:.2f}" for other in probable)
        table.add_row(token, trellis.states[state], f"{posteriors[state]:.2f}", others)
    print_tables(table, f"log P(path | text) = {trellis.log_prob:.4f}")
