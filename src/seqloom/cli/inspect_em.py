"""EM step by step, for `seqloom inspect alignment` and `seqloom inspect hmm`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.cli.figures import write_figure
from seqloom.cli.output import new_table, print_json, print_tables

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.inspect.convergence import EmSteps

_SHOWN = (0, 1, 2, 5, 10, 100, 1000)  # iterations in the table, and the last one


def show_steps(steps: EmSteps, *, out: Path | None, style: str, json_: bool) -> None:
    """Write the figure, and print the probabilities by iteration as a table or as JSON."""
    if out:
        write_figure(steps, out, style=style)
    if json_:
        print_json(steps.to_dict(), compact=True)
        return
    chosen = sorted({*(row for row in _SHOWN if row < steps.iterations), steps.iterations})
    columns = [str(number) for number in chosen]
    table = new_table("given", "outcome", *columns, title=f"EM of {steps.model}, by iteration", right=columns)
    for given, curves in steps.probabilities.items():
        for outcome, values in curves.items():
            table.add_row(given, outcome, *(f"{values[number]:.3f}" for number in chosen))
    table.add_row("log-likelihood", "", *(f"{steps.log_likelihood[number]:.2f}" for number in chosen))
    print_tables(table)
