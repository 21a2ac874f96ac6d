"""`seqloom demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.drawing import check_drawing
from seqloom.cli.options import Style


def demo(
    task: Annotated[str, typer.Option(help="pronunciation, dates or numbers.")] = "pronunciation",
    minutes: Annotated[float | None, typer.Option(help="How long to train.")] = None,
    style: Style = "page",
    out: Annotated[Path | None, typer.Option(help="The run directory; runs/demo-TASK if not given.")] = None,
) -> None:
    """Train, measure and draw a small model on data that needs no download, in about three minutes."""
    from rich.console import Console
    from rich.table import Table

    from seqloom.demo import demo_task, run_demo

    check_drawing(None, style)
    chosen = demo_task(task)
    console = Console()
    console.print(f"[bold]{chosen.what}[/bold]", highlight=False)
    result = run_demo(chosen, out or _free(Path("runs") / f"demo-{task}"), minutes=minutes, style=style)
    table = Table("never seen", "predicted", "true", box=None, header_style="bold")
    for source, answer, references in result.shown:
        mark = "✓" if answer in references else "✗"
        table.add_row(source, f"{mark} {answer}", "  or  ".join(references))
    console.print(table)
    for score in result.scores:
        name = chosen.names.get(score.name, score.label)
        interval = f"[{score.low:.1f}, {score.high:.1f}]"
        line = f"{name} {score.value:.1f} % {interval}  on {score.count:,} held-out items"
        console.print(line, style="bold", markup=False, highlight=False)
    print(f"\nrun directory      {result.run}")
    print(f"attention picture  {result.picture}")
    print("\nTry next:")
    print(f"  echo {chosen.picture_of!r} | seqloom translate {result.run} --nbest 3 --json")
    print(f"  seqloom evaluate {result.run} {result.test_file} --metrics {chosen.metrics} --group-by-source")
    print(f"  seqloom info {result.run}")


def _free(path: Path) -> Path:
    """The path, or the first of path-2, path-3 … that does not exist yet."""
    tried, number = path, 1
    while tried.exists():
        number += 1
        tried = path.with_name(f"{path.name}-{number}")
    return tried
