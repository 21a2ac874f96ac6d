"""CPU time and peak memory of one encoder layer by input length, forward and backward, with exponents.

    python benchmarks/attention_scaling.py --out x.png --json x.json [--lengths 256,512] [--threads 1]

The input is one sentence of n random vectors. The layers are full attention with torch's fused kernel; full
attention by the formula, which stores the n x n weights; linformer, bigbird and window with the defaults of
`model.encoder`; and a bidirectional LSTM of the same width. Attention layers include their feed-forward block.
Times are CPU seconds, which other processes on the machine hardly change; with several threads, their sum.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from command import add_figure_options, run_command
from machine import describe
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from seqloom.inspect.line_styles import line_styles
from seqloom.inspect.picture import PAGE, Style, canvas, legend_below, save_figure
from seqloom.models.stack import EncoderSettings
from seqloom.nn.blocks import BlockShape, EncoderBlock
from seqloom.nn.cells import Cell
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import AttentionPositions
from seqloom.nn.recurrent import RecurrentEncoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
KINDS = ("full", "full-weights", "linformer", "bigbird", "window", "lstm")
TITLES = {"full": "full, fused kernel", "full-weights": "full, weights kept", "lstm": "LSTM"}
KEPT = 3  # n x n tensors per head that the formula holds at its peak
ENOUGH = 1.0  # seconds of repetitions per measurement


@dataclass(frozen=True)
class Measurement:
    """One layer at one length."""

    length: int
    seconds: float  # CPU time, median of the repetitions
    bytes: int  # peak of tensor memory, without weights and input
    repetitions: int


@dataclass
class Series:
    """One kind of layer at growing lengths."""

    kind: str
    points: list[Measurement] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)

    def exponent(self, of: str) -> float | None:
        """Return the slope of log seconds (or bytes) over log n, fitted to the larger half of the lengths."""
        larger = self.points[len(self.points) // 2 :]
        if len(larger) < 2:
            return None
        x, y = ([math.log(getattr(point, name)) for point in larger] for name in ("length", of))
        return statistics.linear_regression(x, y).slope


class KeepWeights(AttentionPositions):
    """A zero bias that requires the attention weights, so attention is computed by the formula."""

    needs_weights = True

    def bias(self, queries: Tensor, at: Tensor, keys: int) -> Tensor:
        return queries.new_zeros(1)


def build(kind: str, width: int, longest: int) -> Callable[[Tensor], Tensor]:
    """Return a layer that maps (1, n, D) to (1, n, D)."""
    if kind == "lstm":
        lstm = RecurrentEncoder(Cell("lstm"), width, 1, "both", residual=False, dropout=0.0)
        return lambda x: lstm(x, torch.tensor([x.shape[1]]))[0]
    heads = max(1, width // 64)
    shape = BlockShape(width, heads, width // heads, width // heads, ffn=4 * width, dropout=0.0)
    if kind == "full-weights":
        block = EncoderBlock(shape, _with_weights)
    else:
        settings = EncoderSettings.model_validate({"attention": kind})
        block = EncoderBlock(shape, settings.kind(0, longest))
    return lambda x: block(x, torch.ones(x.shape[:2], dtype=torch.bool))


def _with_weights(*shape: int, scaled: bool, positions: AttentionPositions) -> SelfAttention:
    return SelfAttention(*shape, scaled=scaled, positions=KeepWeights())


def time_pass(layer: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """Run forward and backward and return the CPU seconds."""
    began = time.process_time()
    torch.autograd.backward(layer(x).sum())
    return time.process_time() - began


def peak_bytes(layer: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """Return the peak of the memory held by torch's allocator."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        time_pass(layer, x)
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    events = profiler.profiler.kineto_results.events()
    changes: list[tuple[int, int]] = sorted(
        (event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"
    )
    return max(accumulate(change for _, change in changes))


def measure(kind: str, length: int, width: int, longest: int) -> Measurement:
    """Measure a new layer at one length. The first pass is a warm-up and measures only the memory."""
    torch.manual_seed(1)
    layer, x = build(kind, width, longest), torch.randn(1, length, width, requires_grad=True)
    peak, times = peak_bytes(layer, x), [time_pass(layer, x)]
    while len(times) < 3 or (sum(times) < ENOUGH and len(times) < 20):
        times.append(time_pass(layer, x))
    return Measurement(length, statistics.median(times), peak, len(times))


def too_large(kind: str, length: int, width: int, limit: float) -> bool:
    """Return whether the attention weights need more than `limit` bytes."""
    return kind == "full-weights" and KEPT * 4 * max(1, width // 64) * length**2 > limit


def table(all_series: Sequence[Series]) -> str:
    """Return tables of milliseconds and megabytes by length, with the exponents."""
    lengths = sorted({point.length for series in all_series for point in series.points})
    lines = []
    for title, unit, name in (("CPU time, ms", 1e3, "seconds"), ("peak memory, MB", 1e-6, "bytes")):
        lines.append(f"{title:18}" + "".join(f"{n:>10,}" for n in lengths) + "  exponent")
        for series in all_series:
            found = {point.length: f"{getattr(point, name) * unit:,.1f}" for point in series.points}
            slope = series.exponent(name)
            shown = "-" if slope is None else f"{slope:.2f}"
            lines.append(
                f"{series.kind:18}" + "".join(f"{found.get(n, '-'):>10}" for n in lengths) + f"{shown:>10}"
            )
        lines.append("")
    return "\n".join(lines)


def draw(all_series: Sequence[Series], style: Style = PAGE) -> Figure:
    """Draw time and memory by length on logarithmic axes, with the fitted exponents in the legend."""
    styles = line_styles([series.kind for series in all_series])
    with canvas(10, 5, style=style, title="Forward and backward pass: CPU time and memory by length") as figure:
        panels = figure.subplots(1, 2)
        for panel, name, unit, label in zip(
            panels, ("seconds", "bytes"), (1, 1e-6), ("CPU seconds", "megabytes"), strict=True
        ):
            for series in all_series:
                xs = [point.length for point in series.points]
                ys = [getattr(point, name) * unit for point in series.points]
                panel.plot(xs, ys, marker="o", color=styles[series.kind].color, ls=styles[series.kind].line)
            panel.set_xscale("log")
            lengths = sorted({point.length for series in all_series for point in series.points})
            panel.set_xticks(lengths, [f"{length:,}" for length in lengths])
            panel.set_xticks([], minor=True)
            panel.set_yscale("log")
            panel.set_xlabel("input length, tokens")
            panel.set_ylabel(label)
            panel.grid()
        handles = []
        for series, line in zip(all_series, panels[0].lines, strict=True):
            line.set_label(TITLES.get(series.kind, series.kind) + _exponents(series))
            handles.append(line)
        legend_below(figure, handles, style)
    return figure


def _exponents(series: Series) -> str:
    """Return the exponents of time and memory for the legend."""
    time, memory = series.exponent("seconds"), series.exponent("bytes")
    return "" if time is None or memory is None else f": time $n^{{{time:.2f}}}$, memory $n^{{{memory:.2f}}}$"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--lengths",
        default=",".join(map(str, LENGTHS)),
        help="input lengths, separated by commas (default: %(default)s)",
    )
    parser.add_argument(
        "--kinds", default=",".join(KINDS), help="layers to measure, separated by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--width", type=int, default=256, help="layer width; heads have width 64 (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: %(default)s)")
    parser.add_argument(
        "--limit",
        type=float,
        default=6,
        help="skip full-weights where it needs more GB than this (default: %(default)s)",
    )
    add_figure_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    lengths = sorted(int(length) for length in options.lengths.split(","))
    all_series = []
    for kind in options.kinds.split(","):
        series = Series(kind)
        for length in lengths:
            if too_large(kind, length, options.width, options.limit * 1e9):
                series.skipped.append(length)
                continue
            series.points.append(measure(kind, length, options.width, lengths[-1]))
            print(f"{kind:14}{length:>8,}{series.points[-1].seconds:>10.3f} s", file=sys.stderr)
        all_series.append(series)
    print(table(all_series))
    if options.out:
        save_figure(draw(all_series, options.style), options.out)
    if options.json:
        found = [
            {**asdict(s), "exponents": {name: s.exponent(name) for name in ("seconds", "bytes")}}
            for s in all_series
        ]
        machine = asdict(describe(options.threads, torch.__version__))
        options.json.write_text(
            json.dumps({"machine": machine, "width": options.width, "series": found}, indent=1)
        )


if __name__ == "__main__":
    run_command(main)
