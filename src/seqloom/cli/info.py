"""`seqloom info`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Json, SetConfig, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table
    from torch import nn

    from seqloom.inspect.cost import CostPart, CostPrediction
    from seqloom.inspect.cost_measure import Measurement
    from seqloom.types import Vocabularies

_PREFIXES = ("", "k", "M", "G", "T", "P")
LENGTH = 64  # default number of tokens on each side


def info(
    run: Annotated[
        Path, typer.Argument(metavar="RUN|CONFIG", help="Run directory, or with --cost a YAML file.")
    ],
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Figure of the learning curves, or with --cost of the cost by length: .png, .svg or .pdf.",
        ),
    ] = None,
    cost: Annotated[
        bool,
        typer.Option("--cost", help="Predict and measure parameters, FLOPs, memory and time of the model."),
    ] = False,
    length: Annotated[
        int, typer.Option(metavar="N", help="With --cost: sequence length on each side, in tokens.")
    ] = LENGTH,
    set_: SetConfig = None,
    style: Style = "page",
    json_: Json = False,
) -> None:
    """Show the model, data and results of a run, or its cost.

    Examples:
      seqloom info runs/de-en --plot curves.png
      seqloom info runs/de-en --cost --length 128
      seqloom info config.yaml --cost --set model.layers=12
    """
    if set_ and (run.is_dir() or not cost):
        raise SeqloomError(
            "--set needs a YAML file and --cost.", "leave it out, or: seqloom info CONFIG --cost"
        )
    check_figure(plot, style)
    if cost:
        _cost(run, length, set_ or [], plot, style, json_)
    else:
        _describe(run, plot, style, json_)


def _describe(run: Path, plot: Path | None, style: str, json_: bool) -> None:
    from seqloom.inspect.facts import describe
    from seqloom.run.directory import Run

    if run.is_file():
        raise SeqloomError(f"{run} is a file, not a run directory.", "add --cost for the cost of its model")
    opened = Run.open(run)
    facts = describe(opened)
    if plot:
        from seqloom.inspect.curves import LearningCurves

        name = f"{opened.config().model.name} ({run.resolve().name})"
        write_figure(LearningCurves(opened.metrics(), name), plot, style=style)
    if json_:
        print_json(facts)
        return
    if "clipped" in facts:
        facts["clipped"] = _clipped(**facts["clipped"])
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<22}{_readable(value)}")


def _clipped(share: float, factor: float) -> str:
    if not share:
        return "no updates"
    return f"{100 * share:.3g} % of updates, to {factor:.2f} of their norm on average"


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
        write_figure(cost_by_length(model, longest=length), plot, style=style, title=title)
    measured = measure(model, length)
    source = "the run's tokenizer" if path.is_dir() else "text.vocab_size, an upper bound"
    if json_:
        facts = {
            "of": str(path),
            "model": name,
            "vocabulary": {**vocabularies._asdict(), "from": source},
            **predicted.to_dict(),
            "measured": measured.to_dict(),
        }
        print_json(facts)
        return
    print(f"{path}: {name}, {length} tokens on each side")
    print(f"vocabulary {vocabularies.source:,} and {vocabularies.target:,} (from {source})")
    _print_cost(predicted, measured)


def _open(path: Path, assignments: list[str]) -> tuple[str, nn.Module, Vocabularies]:
    """Return name, model with random weights, and vocabulary sizes of a run or a configuration."""
    from seqloom.run.build import build_model, build_neural
    from seqloom.run.config import compose
    from seqloom.run.data_settings import adapt_to_data
    from seqloom.run.directory import Run
    from seqloom.types import Vocabularies

    if path.is_dir():
        run = Run.open(path)
        config, pair = run.config(), run.tokenizers()
        sizes = Vocabularies(pair.source.size, pair.target.size, pair.joint)
        return config.model.name, build_model(config, pair), sizes
    if not path.is_file():
        raise SeqloomError(
            f"{path} is neither a run directory nor a configuration file.",
            "give the --out of seqloom train, or a YAML file",
        )
    config = adapt_to_data(compose(path, assignments=assignments))
    sizes = Vocabularies(config.text.vocab_size, config.text.vocab_size, config.text.is_joint)
    return config.model.name, build_neural(config.model, sizes), sizes


def _print_cost(predicted: CostPrediction, measured: Measurement) -> None:
    print_tables(_parts_table(predicted), _layers_table(predicted))
    _print_crossover(predicted)
    print_tables(_measured_table(predicted, measured))
    print(f"Time: fastest of several runs with {measured.sentences} sentences and {measured.threads} threads.")
    for name in predicted.unknown:
        print(f"Not predicted: {name} (unknown layer).")


def _parts_table(predicted: CostPrediction) -> Table:
    title = "Predicted, per token (FLOPs of matrix products; 1 multiply-add = 2)"
    numbers = ("count", "parameters", "forward", "backward", "kept")
    table = new_table("part", *numbers, title=title, right=numbers, no_wrap=("part",), gap=1)
    *parts, total = [*predicted.parts, predicted.total]
    for part in parts:
        table.add_row(*_part_cells(part, predicted.length), end_section=part is parts[-1])
    table.add_row(*_part_cells(total, predicted.length))
    return table


def _part_cells(part: CostPart, length: int) -> list[str]:
    counts = [f"{part.modules:,}", f"{part.parameters:,}"]
    flops = [_amount(value / length) for value in (part.cost.forward, part.cost.backward)]
    return [part.name, *counts, *flops, _amount(part.cost.kept / length, "B")]


def _layers_table(predicted: CostPrediction) -> Table:
    """Return the comparison of layer types in table 1 of Vaswani et al. 2017."""
    title = "Per layer; path: maximum path length between two positions"
    texts, numbers = ("layer", "complexity"), ("n x d", "value", "sequential", "path")
    table = new_table(*texts, *numbers, title=title, right=numbers, no_wrap=texts, gap=1)
    for layer in predicted.layers:
        sizes = [f"{layer.positions:,} x {layer.width:,}", _amount(layer.operations), f"{layer.sequential:,}"]
        table.add_row(layer.kind, layer.complexity, *sizes, "–" if layer.path is None else f"{layer.path:,}")
    return table


def _print_crossover(predicted: CostPrediction) -> None:
    """Print whether self-attention is cheaper than a recurrent layer at this length."""
    for layer in predicted.layers:
        if layer.kind == "self-attention":
            n, d = layer.positions, layer.width
            verdict = "more than" if n > d else "less than" if n < d else "equal to"
            print(f"n = {n:,}, d = {d:,}: n² d is {verdict} the n d² of a recurrent layer.\n")
            return


def _measured_table(predicted: CostPrediction, measured: Measurement) -> Table:
    numbers = ("predicted", "measured", "GFLOP/s")
    table = new_table("", *numbers, title="Measured, per token", right=numbers, no_wrap=("",), gap=1)
    total, length = predicted.total.cost, predicted.length
    table.add_row("FLOPs, forward", _amount(total.forward / length), _amount(measured.forward))
    table.add_row("FLOPs, backward", _amount(total.backward / length), _amount(measured.backward))
    table.add_row("activations kept", _amount(total.kept / length, "B"), _amount(measured.kept, "B"))
    for name, seconds, rate in (
        ("time, forward", measured.forward_seconds, measured.forward_rate),
        ("time, forward and backward", measured.training_seconds, measured.training_rate),
    ):
        table.add_row(name, "", f"{seconds * 1e6:,.1f} µs", f"{rate / 1e9:.3g}")
    return table


def _amount(value: float, unit: str = "") -> str:
    """Return a number with three digits and a metric prefix, e.g. 1.23 M."""
    power = 0
    while value >= 999.5 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {_PREFIXES[power]}{unit}".strip()
