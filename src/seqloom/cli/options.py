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

_SAMPLING = "Sampling and minimum Bayes risk"
Beam = Annotated[int | None, typer.Option(help="Hypotheses kept per line; 1 is greedy (default: the run's).")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="A search option, e.g. search.no_repeat=3, or an option of --strategy."),
]
Strategy = Annotated[
    str | None,
    typer.Option(help="Decoding strategy by name: beam, sample, mbr, ...; options by --set strategy.*"),
]
Sample = Annotated[
    bool, typer.Option("--sample", help="Draw outputs instead of searching.", rich_help_panel=_SAMPLING)
]
Temperature = Annotated[
    float | None, typer.Option(help="Sharpen (below 1) or flatten (above 1) P.", rich_help_panel=_SAMPLING)
]
TopK = Annotated[int | None, typer.Option(help="Keep the k most probable tokens.", rich_help_panel=_SAMPLING)]
TopP = Annotated[
    float | None, typer.Option(help="Keep the fewest tokens with this probability.", rich_help_panel=_SAMPLING)
]
MinP = Annotated[
    float | None,
    typer.Option(help="Keep tokens of this fraction of the top token's P.", rich_help_panel=_SAMPLING),
]
Typical = Annotated[
    float | None, typer.Option(help="Keep typical tokens with this probability.", rich_help_panel=_SAMPLING)
]
Seed = Annotated[int | None, typer.Option(help="Random seed of the samples.", rich_help_panel=_SAMPLING)]
Mbr = Annotated[
    str | None,
    typer.Option(
        help="chrf or bleu: choose the output most similar to all samples, or to all that --beam finds.",
        rich_help_panel=_SAMPLING,
    ),
]
Samples = Annotated[
    int | None, typer.Option(min=1, help="Samples for --mbr (default: 32).", rich_help_panel=_SAMPLING)
]
