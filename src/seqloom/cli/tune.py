"""`seqloom tune`."""

from __future__ import annotations

from typing import Any

import typer

from seqloom.cli.commands import Command, CommandGroup
from seqloom.cli.tune_search import search
from seqloom.cli.tune_training import training

_DEFAULT = "training"


class _Tune(CommandGroup):
    """Group whose command may be left out: `tune pairs.tsv` is `tune training pairs.tsv`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Tune, help="Tune search or training options on validation data.")
app.command(cls=Command)(search)
app.command(cls=Command)(training)
