"""`seqloom models`."""

from __future__ import annotations

from seqloom.cli.options import Json
from seqloom.cli.output import new_table, print_json, print_tables


def models(json_: Json = False) -> None:
    """List the model architectures.

    Any name in the list is a value of --model of seqloom train.
    """
    from seqloom.registry import architectures

    known = architectures().values()
    if json_:
        rows = [
            {"name": a.name, "summary": a.summary, "paper": a.paper, "sizes": list(a.settings.SIZES)}
            for a in known
        ]
        print_json(rows)
        return
    table = new_table("name", "description", "source")
    for a in known:
        table.add_row(a.name, a.summary, a.paper)
    print_tables(table)
