"""`seqloom info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def info(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    plot: Annotated[Path | None, typer.Option(help="Draw the learning curves: .png, .svg or .pdf.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Tell what a run is: model, data, how far it got, how good it is."""
    from seqloom.run import Run, describe

    opened = Run.open(run)
    facts = describe(opened)
    if plot:
        from seqloom.inspect.curves import curve_picture

        curve_picture(opened.metrics(), plot, title=str(run))
    if json_:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    if "clipped" in facts:
        facts["clipped"] = _clipped(**facts["clipped"])
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<22}{_readable(value)}")


def _clipped(share: float, factor: float) -> str:
    if not share:
        return "none of the updates"
    return f"{100 * share:.3g} % of updates, to {factor:.2f} of their length on average"


def _readable(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{key} {_readable(inner)}" for key, inner in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
