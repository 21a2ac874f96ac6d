"""`seqloom doctor`."""

from __future__ import annotations

from seqloom.cli.options import Json, Run
from seqloom.cli.output import print_json


def doctor(run: Run, json_: Json = False) -> None:
    """Diagnose problems of a run, with evidence and advice.

    Checks the learning rate, over- and underfitting, gradients, weights, attention heads, padding and data.

    Example:
      seqloom doctor runs/de-en
    """
    from seqloom.inspect.doctor import diagnose

    findings = diagnose(run)
    if json_:
        print_json([finding.as_dict() for finding in findings])
        return
    for finding in findings:
        print(f"{finding.problem}\n  evidence: {finding.evidence}\n  advice:   {finding.advice}")
    if not findings:
        print("No problems found in learning rate, fit, gradients, weights, heads, padding and data.")
