"""`seqloom doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def doctor(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    json_: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
) -> None:
    """Say what is wrong with a run, with the evidence: learning rate, fit, gradients, heads, padding, data."""
    from seqloom.building import load_model
    from seqloom.files import read_object
    from seqloom.inspect.doctor import Patient, diagnose
    from seqloom.run import Run

    opened = Run.open(run)
    report = opened.folder / "data-report.json"
    findings = diagnose(
        Patient(
            config=opened.config().train,
            metrics=opened.metrics(),
            data=read_object(report) if report.is_file() else {},
            model=load_model(opened)[0],
        )
    )
    if json_:
        print(json.dumps([finding.as_dict() for finding in findings], indent=2, ensure_ascii=False))
        return
    for finding in findings:
        print(f"{finding.problem}\n  seen:   {finding.evidence}\n  to do:  {finding.advice}")
    if not findings:
        print("Nothing is wrong: learning rate, fit, gradients, weights, heads, padding and data look healthy.")
