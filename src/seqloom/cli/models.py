"""`seqloom models`."""

from __future__ import annotations

from typing import Annotated

import typer

from seqloom.strict_json import json_text


def models(json_: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False) -> None:
    """List the architectures that --model can name."""
    from seqloom.registry import architectures

    known = architectures().values()
    if json_:
        rows = [
            {"name": a.name, "summary": a.summary, "paper": a.paper, "sizes": list(a.settings.SIZES)}
            for a in known
        ]
        print(json_text(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "what it is", "where it comes from", box=None)
    for a in known:
        table.add_row(a.name, a.summary, a.paper)
    Console().print(table)
