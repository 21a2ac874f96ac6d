"""Write the pages of the labs, docs/labs/*.md, from the results in docs/labs/results (`make docs`).

The results come from `seqloom lab run all --out docs/labs/results`. Pages and figures are not committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqloom.inspect.picture import rendered
from seqloom.labs.framework.choice import run_command
from seqloom.labs.framework.discovery import labs
from seqloom.labs.framework.formula import formula_svg
from seqloom.labs.framework.lab import Lab
from seqloom.labs.framework.report import settings_text, verdict_of
from seqloom.labs.framework.results import LabResult, ResultStore

FOLDER = Path(__file__).parent / "labs"


def write_pages(folder: Path, results: Mapping[str, LabResult]) -> None:
    """Write the contents, and a page with two pictures per lab."""
    (folder / "index.md").write_text(contents(results), encoding="utf-8")
    for name, lab in labs().items():
        (folder / f"{name}.md").write_text(page(lab, results.get(name)), encoding="utf-8")
        (folder / f"{name}-equation.svg").write_bytes(formula_svg(lab.equation))
        if name in results:
            figure = lab.plot(results[name].numbers).plot(style="slide")
            (folder / f"{name}.svg").write_bytes(rendered(figure, "svg"))


def contents(results: Mapping[str, LabResult]) -> str:
    """Return the page that lists all labs."""
    rows = [
        f"| {number} | [{cell(lab.claim)}]({name}.md) | {lab.note} | {verdict_of(results.get(name))} |"
        for number, (name, lab) in enumerate(labs().items(), 1)
    ]
    head = "| | claim | notes | verdict |\n|---|---|---|---|\n"
    tree = "\n".join(["```{toctree}", ":hidden:", "", *labs(), "```"])
    return (
        "# Labs\n\nEach page tests a claim of lecture notes about sequence models by an experiment. "
        "[Labs: claims as experiments](../guides/labs.md) shows the commands.\n\n"
        f"{head}" + "\n".join(rows) + f"\n\n{tree}\n"
    )


def page(lab: Lab[Any, Any], result: LabResult | None) -> str:
    """Return the page of a lab."""
    parts = [
        f"# {lab.claim}",
        f"{lab.note}",
        f"![{lab.name}: equation]({lab.name}-equation.svg)",
        f"**Method.** {lab.method}",
        f"**Criterion.** {lab.criterion}",
        *([] if result is None else outcome(lab, result)),
        *([f"The numbers are stored. To measure them again: `{lab.measured_by}`"] if lab.measured_by else []),
        "## Change this and look again",
        "\n".join(f"- `{run_command(lab, one.settings)}`: {one.question}" for one in lab.variations),
        "## Exercise",
        lab.exercise.question,
        f"<details><summary>Solution</summary>\n\n{lab.exercise.solution}\n\n</details>",
    ]
    return "\n\n".join(parts) + "\n"


def outcome(lab: Lab[Any, Any], result: LabResult) -> list[str]:
    """Return verdict, figure, numbers and explanation."""
    table = lab.table(result.numbers)
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    made = f"`{run_command(lab)}`, {settings_text(result).lower()}, {result.finished[:10]}"
    return [
        f"**Verdict: {verdict_of(result)}.** {result.judgement.reason}",
        f"![{lab.claim}]({lab.name}.svg)",
        "\n".join(f"| {' | '.join(map(cell, row))} |" for row in rows),
        f"{made}.",
        f"**Explanation.** {lab.explanation}",
    ]


def cell(text: str) -> str:
    """Return text without the separator of tables."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    write_pages(FOLDER, ResultStore(FOLDER / "results").latest())
