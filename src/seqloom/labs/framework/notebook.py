"""Notebook of a lab: claim, criterion, and code cells that run, judge and draw it."""

from __future__ import annotations

import shlex
from typing import Any

from seqloom.labs.framework.lab import Lab
from seqloom.strict_json import json_text


def notebook(lab: Lab[Any, Any]) -> str:
    """Return the text of an .ipynb file (format 4.5)."""
    module = type(lab).__module__
    cells = [
        _markdown(
            f"# {lab.claim}\n\n{lab.note}\n\n$${lab.equation}$$\n\n**Method.** {lab.method}\n\n"
            f"**Criterion.** {lab.criterion}"
        ),
        _code(
            f"from {module} import LAB\n"
            "from seqloom.labs.framework.choice import settings_of\n"
            "from seqloom.labs.framework.running import run_lab\n\n"
            "settings = settings_of(LAB, assignments=[])  # e.g. "
            f"assignments={shlex.split(lab.variations[0].settings)!r}\n"
            "settings"
        ),
        _code("result = run_lab(LAB, settings)\nresult.judgement"),
        _code("LAB.plot(result.numbers)"),
        _markdown(f"**Explanation.** {lab.explanation}"),
        _markdown(
            f"**Exercise.** {lab.exercise.question}\n\n<details><summary>Solution</summary>\n\n"
            f"{lab.exercise.solution}\n\n</details>"
        ),
    ]
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"{lab.name}-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json_text(content, indent=1) + "\n"


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": text}
