"""`seqloom doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.strict_json import json_text


def doctor(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    json_: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
) -> None:
    """Say what is wrong with a run, with the evidence: learning rate, fit, gradients, heads, padding, data."""
    from seqloom.inspect.doctor import diagnose

    findings = diagnose(run)
    if json_:
        print(json_text([finding.as_dict() for finding in findings], indent=2))
        return
    for finding in findings:
        print(f"{finding.problem}\n  seen:   {finding.evidence}\n  to do:  {finding.advice}")
    if not findings:
        print("Nothing is wrong: learning rate, fit, gradients, weights, heads, padding and data look healthy.")
