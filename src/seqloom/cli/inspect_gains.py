"""Options --gain and --depth of `seqloom inspect gradients`: models with random weights, without data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from seqloom.cli.figures import write_figure
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError, unknown

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.inspect.fresh_gradients import DepthGradients, GainGradients
    from seqloom.nn.cells import Activation

Gain = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Sizes of the eigenvalues of W of simple RNNs, e.g. 0.5,1,1.6."),
]
GainActivation = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="σ of these RNNs: identity, tanh, sigmoid or relu.", show_default="identity"
    ),
]
Depth = Annotated[
    int | None, typer.Option(min=2, max=1000, metavar="N", help="Number of layers of Transformers.")
]
_MAX_GAIN = 1000.0  # ** 39 steps is still finite in double precision


def show_fresh(
    models: Sequence[Path] | None,
    gain: str | None,
    activation: str | None,
    depth: int | None,
    assignments: Sequence[str] | None,
    *,
    out: Path | None,
    style: str,
    json_: bool,
) -> bool:
    """Show the gradients of models with random weights, if requested, and return whether they are."""
    given = [name for name, value in (("--gain", gain), ("--depth", depth)) if value is not None]
    if len(given) + bool(models) != 1:
        raise SeqloomError(
            "Give runs or configurations, --gain or --depth: one of the three.",
            "e.g. seqloom inspect gradients --gain 0.5,1,1.6",
        )
    if activation is not None and gain is None:
        raise SeqloomError("--activation needs --gain.", "add --gain, or leave --activation out")
    if models:
        return False
    if assignments:
        raise SeqloomError(f"--set has no effect with {given[0]}.", "leave out --set")
    from seqloom.inspect.fresh_gradients import STEEPEST, depth_gradients, gain_gradients

    name = activation or "identity"
    if name not in STEEPEST:
        raise unknown("activation", name, STEEPEST)
    found: GainGradients | DepthGradients
    if gain is not None:
        found = gain_gradients(_gains(gain), activation=cast("Activation", name))
        table = _gain_table(found)
    else:
        assert depth is not None
        found = depth_gradients(depth)
        table = _depth_table(found)
    if out:
        write_figure(found, out, style=style)
    if json_:
        print_json(found.to_dict(), compact=True)
    else:
        print_tables(table)
    return True


def _gains(text: str) -> list[float]:
    try:
        gains = [float(part) for part in text.split(",")]
    except ValueError:
        gains = []
    if not gains or not all(0 < gain <= _MAX_GAIN for gain in gains):
        raise SeqloomError(
            f"--gain must be numbers between 0 and {_MAX_GAIN:g}, got {text!r}.", "e.g. --gain 0.5,1,1.6"
        )
    return gains


def _gain_table(found: GainGradients) -> Table:
    columns = ("|λ|", "bound γ|λ|", "factor per step, decoder", "encoder", "last distance, decoder")
    table = new_table(*columns, title=f"gradients of an RNN, σ = {found.activation}", right=columns)
    for one in found.curves:
        decoder, encoder = one.rates
        table.add_row(
            f"{one.gain:g}", f"{one.bound:g}", f"{decoder:.4f}", f"{encoder:.4f}", f"{one.decoder[-1]:.2e}"
        )
    return table


def _depth_table(found: DepthGradients) -> Table:
    columns = ("first layer", "last layer", "ratio")
    table = new_table("residual, norm", *columns, title="gradient norms by layer", right=columns)
    for kind, norms in found.norms.items():
        table.add_row(kind, f"{norms[0]:.2e}", f"{norms[-1]:.2e}", f"{norms[0] / norms[-1]:.2e}")
    return table
