"""`seqloom demo`."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure
from seqloom.cli.options import Style

if TYPE_CHECKING:
    from rich.console import Console

    from seqloom.demo import DemoData, DemoPrediction, DemoResult, DemoTask

_ROWS = 12  # of the table of predictions


def demo(
    task: Annotated[
        str, typer.Option(metavar="NAME", help="Task: pronunciation, dates or numbers.")
    ] = "pronunciation",
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Minutes to train.",
            show_default="a fixed number of steps, at most 3 minutes",
        ),
    ] = None,
    style: Style = "page",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run directory to create.", show_default="runs/demo-TASK"),
    ] = None,
) -> None:
    """Train and test a small model in about three minutes.

    The data needs no download. Prints examples that the model has never seen, and draws its attention.

    Example:
      seqloom demo --task dates --minutes 1
    """
    from rich.console import Console

    from seqloom.demo import demo_task, evaluate_demo, prepare_data, train_demo

    check_figure(None, style)
    chosen = demo_task(task)
    run = out or _unused_path(Path("runs") / f"demo-{task}")
    console = Console(highlight=False)
    console.print(f"[bold]{chosen.goal}[/bold]\n")
    data = prepare_data(chosen, run.with_name(f"{run.name}-data"))
    _print_plan(console, chosen, data, minutes)
    state = train_demo(chosen, data, run, minutes=minutes)
    if not state.finished:
        console.print(f"Training was stopped. To continue it: {_command('resume', run)}", markup=False)
        raise typer.Exit(130)
    console.print(f"Testing on the held-out {chosen.item}s ...")
    result = evaluate_demo(chosen, data, run, style=style)
    _print_scores(console, chosen, result)
    _print_predictions(console, chosen, result.predictions)
    console.print(
        f"\nThe picture shows which part of {chosen.picture_of!r} each output token attends to:", markup=False
    )
    console.print(f"  {result.picture}", markup=False, soft_wrap=True)
    if minutes is None and state.step < chosen.steps:
        _print_advice(console, chosen, state.step)
    _print_next(console, chosen, data, run)


def _print_plan(console: Console, task: DemoTask, data: DemoData, minutes: float | None) -> None:
    """Print the training data, the test data and the time limit."""
    example = data.training[len(data.training) // 2]
    held_out = len({example.source for example in data.test})
    limit = f"{minutes:g} minutes" if minutes else f"at most {task.minutes:g} minutes"
    console.print(
        f"  learns from  {len(data.training):,} pairs, e.g. {example.source} → {example.target}", markup=False
    )
    console.print(f"  tested on    {held_out:,} other {task.item}s, which it never sees in training")
    console.print(f"  training     {limit}\n")


def _print_scores(console: Console, task: DemoTask, result: DemoResult) -> None:
    console.print(f"\n[bold]Result on {result.scores[0].count:,} {task.item}s never seen in training[/bold]\n")
    for score in result.scores:
        interval = f"95 % interval {score.low:.1f}–{score.high:.1f}"
        console.print(f"  {score.value:5.1f} % {task.metrics[score.name]}, {interval}")


def _print_predictions(console: Console, task: DemoTask, predictions: list[DemoPrediction]) -> None:
    """Print an evenly spaced selection of the predictions, with the correct output next to wrong ones."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("", task.item, "predicted", "correct, if different"):
        table.add_column(name, overflow="fold")
    for number in range(_ROWS):
        shown = predictions[number * len(predictions) // _ROWS]
        mark = Text("✓", "green") if shown.correct else Text("✗", "red")
        correct = "" if shown.correct else " or ".join(shown.references)
        table.add_row(mark, *map(Text, (shown.source, shown.output, correct)))
    console.print()
    console.print(table)


def _print_advice(console: Console, task: DemoTask, steps: int) -> None:
    """Explain a weak result on a slow or busy machine."""
    console.print(
        f"\nThis machine is slow or busy: {steps:,} of {task.steps:,} steps in {task.minutes:g} minutes.\n"
        f"For a better model: {_command('demo', '--task', task.name, '--minutes', 10)}",
        markup=False,
    )


def _print_next(console: Console, task: DemoTask, data: DemoData, run: Path) -> None:
    """Print commands to try next; they work when pasted."""
    translate = _command("translate", run, "--nbest", 3)
    metrics = ",".join(task.metrics)
    commands = {
        f"Use the model on any {task.item}:": f"echo {shlex.quote(task.picture_of)} | {translate}",
        "Evaluate it:": _command("evaluate", run, data.test_file, "--metrics", metrics, "--group-by-source"),
        "Train on a table of pairs, here that of the demo, with the same settings:": _command(
            "train",
            data.training_file,
            "--config",
            run / "config.yaml",
            "--out",
            _unused_path(Path("runs/mine")),
        ),
    }
    commands["Look inside, in a browser:"] = _command("studio", run)
    console.print("\n[bold]Try next[/bold]")
    for purpose, command in commands.items():
        console.print(f"\n  {purpose}\n    {command}", markup=False, soft_wrap=True)


def _command(*arguments: object) -> str:
    """Return a command line that can be pasted into the user's shell."""
    return shlex.join([*_program(), *map(str, arguments)])


def _program() -> list[str]:
    """Return the command that runs seqloom: its name if it is on PATH, its path, or `python -m seqloom`."""
    script = Path(sys.argv[0])
    if script.name != "seqloom":
        return [sys.executable, "-m", "seqloom"]
    on_path = shutil.which("seqloom")
    return ["seqloom"] if on_path and Path(on_path).resolve() == script.resolve() else [sys.argv[0]]


def _unused_path(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3 … that does not exist yet."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
