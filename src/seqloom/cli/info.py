"""`seqloom info`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.options import Style
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table
    from torch import nn

    from seqloom.inspect.cost import Part, Prediction
    from seqloom.inspect.cost_measure import Measurement
    from seqloom.types import Vocabularies

POWERS = ("", "k", "M", "G", "T", "P")
LENGTH = 64  # tokens on each side, unless told otherwise


def info(
    run: Annotated[
        Path, typer.Argument(metavar="RUN|CONFIG", help="A run directory; with --cost also a YAML file.")
    ],
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the learning curves, or the cost by length: .png, .svg or .pdf."),
    ] = None,
    cost: Annotated[
        bool,
        typer.Option("--cost", help="Tell what the model costs: parameters, FLOPs, memory, time."),
    ] = False,
    length: Annotated[int, typer.Option(help="With --cost: tokens on each side.")] = LENGTH,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the YAML file, e.g. model.width=512.")
    ] = None,
    style: Style = "page",
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Tell what a run is: model, data, how far it got, how good it is. Or what its model costs."""
    if set_ and (run.is_dir() or not cost):
        raise SeqloomError(
            "--set has no configuration file to change: it belongs to `info CONFIG --cost`.", "leave it out"
        )
    check_drawing(plot, style)
    if cost:
        _cost(run, length, set_ or [], plot, style, json_)
    else:
        _describe(run, plot, style, json_)


def _describe(run: Path, plot: Path | None, style: str, json_: bool) -> None:
    from seqloom.inspect.facts import describe
    from seqloom.run import Run

    if run.is_file():
        raise SeqloomError(f"{run} is a file, not a run directory.", "add --cost to tell what its model costs")
    opened = Run.open(run)
    facts = describe(opened)
    if plot:
        from seqloom.inspect.curves import LearningCurves

        name = f"{opened.config().model.name} ({run.resolve().name})"
        write_drawing(LearningCurves(opened.metrics(), name), plot, style=style)
    if json_:
        print(json_text(facts, indent=2))
        return
    if "clipped" in facts:
        facts["clipped"] = _clipped(**facts["clipped"])
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<22}{_readable(value)}")


def _clipped(share: float, factor: float) -> str:
    if not share:
        return "none of the updates"
    return f"{100 * share:.3g} % of updates, to {factor:.2f} of their length on average"


def _readable(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{key} {_readable(inner)}" for key, inner in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cost(path: Path, length: int, assignments: list[str], plot: Path | None, style: str, json_: bool) -> None:
    from seqloom.inspect.cost import predict
    from seqloom.inspect.cost_measure import measure

    name, model, vocabularies = _open(path, assignments)
    predicted = predict(model, length)
    if plot:
        from seqloom.inspect.cost_picture import cost_by_length

        title = f"Cost of a forward pass of {name} by length"
        write_drawing(cost_by_length(model, longest=length), plot, style=style, title=title)
    measured = measure(model, length)
    source = "the run's tokenizer" if path.is_dir() else "text.vocab_size, the most there can be"
    if json_:
        facts = {
            "of": str(path),
            "model": name,
            "vocabulary": {**vocabularies._asdict(), "from": source},
            **predicted.to_dict(),
            "measured": measured.to_dict(),
        }
        print(json_text(facts, indent=2))
        return
    print(f"{path}: {name}, {length} tokens on each side")
    print(f"vocabulary {vocabularies.source:,} and {vocabularies.target:,} (from {source})")
    _print(predicted, measured)


def _open(path: Path, assignments: list[str]) -> tuple[str, nn.Module, Vocabularies]:
    """The name and the model of a run or of a configuration, with fresh weights, and its vocabularies."""
    from seqloom.building import build_model, build_neural
    from seqloom.config import compose
    from seqloom.run import Run
    from seqloom.types import Vocabularies

    if path.is_dir():
        run = Run.open(path)
        config, pair = run.config(), run.tokenizers()
        sizes = Vocabularies(pair.source.size, pair.target.size, pair.joint)
        return config.model.name, build_model(config, pair), sizes
    if not path.is_file():
        raise SeqloomError(
            f"{path} is neither a run directory nor a configuration file.",
            "give the folder that --out named when training, or a YAML file",
        )
    config = compose(path, assignments=assignments)
    sizes = Vocabularies(config.text.vocab_size, config.text.vocab_size, config.text.is_joint)
    return config.model.name, build_neural(config.model, sizes), sizes


def _print(predicted: Prediction, measured: Measurement) -> None:
    from rich.console import Console

    console = Console()
    console.print(_parts_table(predicted))
    console.print(_layers_table(predicted))
    _print_crossover(predicted)
    console.print(_measured_table(predicted, measured))
    print(
        f"Time: the fastest of several, sentences at once: {measured.sentences}, threads: {measured.threads}."
    )
    for name in predicted.unknown:
        print(f"Not predicted: {name}, for which there is no rule.")


def _parts_table(predicted: Prediction) -> Table:
    table = _table("Predicted, per token (FLOPs of matrix products; 1 multiply-add = 2)", "part")
    for head in ("count", "parameters", "forward", "backward", "kept"):
        table.add_column(head, justify="right")
    *parts, total = [*predicted.parts, predicted.total]
    for part in parts:
        table.add_row(*_part_cells(part, predicted.length), end_section=part is parts[-1])
    table.add_row(*_part_cells(total, predicted.length))
    return table


def _part_cells(part: Part, length: int) -> list[str]:
    counts = [f"{part.modules:,}", f"{part.parameters:,}"]
    flops = [_amount(value / length) for value in (part.cost.forward, part.cost.backward)]
    return [part.name, *counts, *flops, _amount(part.cost.kept / length, "B")]


def _layers_table(predicted: Prediction) -> Table:
    """As Vaswani et al. 2017, table 1."""
    table = _table("Per layer; the path is that between the two positions furthest apart", "layer")
    table.add_column("complexity", no_wrap=True)
    for head in ("n x d", "value", "sequential", "path"):
        table.add_column(head, justify="right")
    for layer in predicted.layers:
        sizes = [f"{layer.positions:,} x {layer.width:,}", _amount(layer.operations), f"{layer.sequential:,}"]
        table.add_row(layer.kind, layer.complexity, *sizes, "–" if layer.path is None else f"{layer.path:,}")
    return table


def _print_crossover(predicted: Prediction) -> None:
    """Whether sentences are short enough for attention to be the cheaper kind of layer."""
    for layer in predicted.layers:
        if layer.kind == "self-attention":
            n, d = layer.positions, layer.width
            verdict = "more than" if n > d else "less than" if n < d else "as much as"
            print(f"n = {n:,}, d = {d:,}: n² d is {verdict} the n d² of a recurrent layer.\n")
            return


def _measured_table(predicted: Prediction, measured: Measurement) -> Table:
    table = _table("Measured, per token", "")
    for head in ("predicted", "measured", "GFLOP/s"):
        table.add_column(head, justify="right")
    whole, length = predicted.total.cost, predicted.length
    table.add_row("FLOPs, forward", _amount(whole.forward / length), _amount(measured.forward))
    table.add_row("FLOPs, backward", _amount(whole.backward / length), _amount(measured.backward))
    table.add_row("kept for the gradient", _amount(whole.kept / length, "B"), _amount(measured.kept, "B"))
    for name, seconds, rate in (
        ("time, forward", measured.forward_seconds, measured.forward_rate),
        ("time, forward and backward", measured.training_seconds, measured.training_rate),
    ):
        table.add_row(name, "", f"{seconds * 1e6:,.1f} µs", f"{rate / 1e9:.3g}")
    return table


def _table(title: str, first: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    return table


def _amount(value: float, unit: str = "") -> str:
    """Three digits and the power of a thousand: 1.23 M."""
    power = 0
    while value >= 999.5 and power < len(POWERS) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {POWERS[power]}{unit}".strip()
