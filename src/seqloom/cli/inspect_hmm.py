"""`seqloom inspect hmm`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.inspect_em import show_steps
from seqloom.cli.options import Json, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.inspect.trellis import HiddenStates
    from seqloom.statistical.hmm.trellis import Trellis


def hmm(
    run: Annotated[
        Path | None,
        typer.Argument(help="Run directory of an hmm or hmm-lm model.", show_default="none, with --iterations"),
    ] = None,
    text: Annotated[
        str | None, typer.Argument(help="Text to analyse.", show_default="none, with --iterations")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, metavar="N", help="Show this many EM iterations on three sentences instead."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the trellis: .png, .svg, .pdf, .json or .html."),
    ] = None,
    style: Style = "page",
    json_: Json = False,
) -> None:
    """Show the hidden states of a text.

    Prints the posterior probability of the states at every word, and the best path (Viterbi).

    Examples:
      seqloom inspect hmm runs/tagger "the cat sleeps" --out trellis.png
      seqloom inspect hmm --iterations 20 --out em.png
    """
    from seqloom.inspect.convergence import hmm_steps
    from seqloom.inspect.trellis import HiddenStates

    check_figure(out, style, HiddenStates.formats)
    if iterations is not None:
        if run is not None:
            raise SeqloomError(
                "--iterations shows EM without a run.", "leave out RUN and TEXT, or --iterations"
            )
        show_steps(hmm_steps(iterations), out=out, style=style, json_=json_)
        return
    if run is None or text is None:
        raise SeqloomError("No run or no text given.", "give RUN and TEXT, or --iterations N")
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
