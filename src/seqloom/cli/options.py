"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Source = Annotated[str | None, typer.Option(help="A text file with one source per line.")]
Target = Annotated[str | None, typer.Option(help="A text file with the target of each line of --source.")]
SourceColumn = Annotated[
    str | None, typer.Option(help="Source column of a table: its header, or its number from 1.")
]
TargetColumn = Annotated[
    str | None, typer.Option(help="Target column of a table: its header, or its number from 1.")
]
HeadsColumn = Annotated[
    str | None, typer.Option(help="Column with dependency heads, for models that read trees.")
]
Column = Annotated[str | None, typer.Option("--column", hidden=True, help="Former name of --source-column.")]
Style = Annotated[str, typer.Option(help="Style of the figure: page, or slide (16:9, text of at least 16 pt).")]
