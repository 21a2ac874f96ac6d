"""`seqloom inspect search --target`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqloom.cli.output import new_table, print_json, print_tables

_MEANINGS = {
    "same": "It is the output.",
    "model": "The model prefers its output, so no beam can make this translation the output.",
    "search": "It scores higher than the output: the search missed it.",
    "equal": "It scores as high as the output.",
    "rules": "The search options exclude it, e.g. search.forbid or the maximum length.",
}


def print_verdict(run: Path, fields: Mapping[str, Any], device: str, json_: bool) -> None:
    """Print the verdict on a translation."""
    from seqloom.inspect.viewed_run import ViewedRun
    from seqloom.inspect.views import document

    found = document(ViewedRun(run, device=device), "verdict", fields)
    if json_:
        print_json(found, compact=True)
        return
    numbers = ("log P", "total", "rank", "worst kept")
    table = new_table("token", *numbers, "", right=numbers)
    for one in found["steps"]:
        kept = "" if one["last_kept"] is None else f"{one['last_kept']:.2f}"
        table.add_row(
            one["token"], _shown(one["log_prob"]), _shown(one["total"]), str(one["rank"]), kept, one["fate"]
        )
    output = found["output"]
    print_tables(
        f"score {_shown(found['score'])}: {found['target']}\nscore {_shown(output['score'])}: {output['text']}",
        table,
        _lost(found),
        f"{_MEANINGS[found['verdict']]}",
    )


def _shown(value: float | None) -> str:
    return "−∞" if value is None else f"{value:.2f}"


def _lost(found: Mapping[str, Any]) -> str:
    """Return where the translation leaves the beam, and which beam keeps it."""
    lost, smallest = found["lost_at"], found["smallest_beam"]
    kept = (
        f"No beam up to {found['largest_tried']} keeps it."
        if smallest is None
        else f"Beam {smallest} keeps it."
    )
    if lost is None:
        return f"Beam {found['beam']} keeps it to its end. The smallest beam that does: {smallest}."
    how = "is pruned" if found["reason"] == "pruned" else "is still incomplete when the search stops"
    return f"With beam {found['beam']} it {how} at token {lost}. {kept}"
