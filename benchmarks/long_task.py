"""Accuracy and training time by kind of encoder attention on inputs of about a thousand symbols.

    python benchmarks/long_task.py --records long.jsonl --runs runs/long --out long.png [--seeds 1 2]

The task is `needles` (seqloom.data.tasks): output four numbered letters, hidden among 1,000 to 1,100 other
letters, in the order of their numbers. Training pairs have all lengths from 32, so that some are easy; test
pairs are all long. All runs see the same pairs in the same order. The kind `itself` is a window of size 0, in
which a symbol attends only to itself: a baseline without attention in the encoder. Recorded trials are skipped,
so an interrupted command can be repeated.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from command import run_command
from trials import Row, bar_figure, run_trials, train_or_resume, trial_parser

from seqloom.data.tasks import generate, needles
from seqloom.evaluate.metrics import evaluate
from seqloom.files import write_atomically
from seqloom.inspect.picture import PAGE, Style, save_figure
from seqloom.run.config import Config, compose

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: dict[str, dict[str, Any]] = {
    "full": {"model.encoder.attention": "full"},
    "linformer": {"model.encoder.attention": "linformer"},
    "bigbird": {"model.encoder.attention": "bigbird"},
    "window": {"model.encoder.attention": "window"},
    "itself": {"model.encoder.attention": "window", "model.encoder.window": 0},
}
ROWS = 4  # per update for the longest sources; more for shorter ones
SHORTEST = 32  # training source, in symbols
PAIRS, TEST_PAIRS = 12_000, 500


def configure(kind: str, pairs: Path, seed: int, steps: int, rate: float) -> Config:
    """Return the config of one run; only the encoder attention differs."""
    longest = needles.LONGEST + 1  # including the end of the sentence
    return compose(
        values={
            "data.train": str(pairs),
            "data.max_length": longest,
            "data.valid_max": 50,
            "text.tokenizer": "word",
            "text.byte_fallback": False,
            "model.name": "transformer",
            "model.width": 64,
            "model.layers": 1,
            "model.heads": 2,
            "model.ffn": 128,
            "model.dropout": 0.0,
            "model.max_length": longest,
            **KINDS[kind],
            "train.seed": seed,
            "train.max_steps": steps,
            "train.threads": 1,
            "train.batch_tokens": ROWS * longest,
            "train.learning_rate": rate,
            "train.schedule": "cosine",
            "train.warmup": 100,
            "train.label_smoothing": 0.0,
            "train.checkpoint_every": max(1, steps // 2),
            "search.beam": 1,
            "search.max_length_factor": 0.0,
            "search.max_length_extra": 8,
        }
    )


def write_pairs(file: Path, seed: int) -> None:
    """Write the training pairs shared by all runs of a seed."""
    random = Random(seed)
    lines = ("\t".join(needles.draw(random, SHORTEST)) + "\n" for _ in range(PAIRS))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "".join(lines))


def run(config: Config, folder: Path) -> Row:
    """Train, decode new pairs and return the scores."""
    began = time.process_time()
    translator = train_or_resume(config, folder)
    seconds = time.process_time() - began
    test = list(generate("needles", TEST_PAIRS, seed=1_000_000))
    outputs = [best[0].text for best in translator.translate([pair.source for pair in test])]
    exact, wrong = evaluate(outputs, [[pair.target or ""] for pair in test], "exact,wer")
    assert config.train.max_steps
    return {
        "exact": exact.value,
        "low": exact.low,
        "high": exact.high,
        "symbols": 100 - wrong.value,
        "steps": config.train.max_steps,
        "milliseconds": 1000 * seconds / config.train.max_steps,  # CPU time
    }


def averages(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return the mean over seeds of every measurement, by kind."""
    names = ("exact", "low", "high", "symbols", "steps", "milliseconds")
    groups = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    return {
        kind: {name: statistics.mean(row[name] for row in mine) for name in names}
        for kind, mine in groups.items()
        if mine
    }


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table with one row per kind."""
    lines = ["| attention | exact match, % | symbols, % | updates | CPU ms per update |"]
    lines.append("|---|---|---|---|---|")
    for kind, mean in averages(rows).items():
        exact = "{exact:.1f} [{low:.1f}, {high:.1f}]".format(**mean)
        cells = (exact, f"{mean['symbols']:.1f}", f"{mean['steps']:,.0f}", f"{mean['milliseconds']:.0f}")
        lines.append(f"| `{kind}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: Sequence[Row], style: Style = PAGE) -> Figure:
    """Draw the exact-match accuracy by kind."""
    found = averages(rows).items()
    bars = {kind: {"exact match": [mean["exact"], mean["low"], mean["high"]]} for kind, mean in found}
    title = "Finding needles among 1,000 symbols, by kind of attention"
    return bar_figure(bars, label="exact match, %", group="attention", title=title, width=6, style=style)


def parse() -> argparse.Namespace:
    parser = trial_parser(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--steps", type=int, default=1000, help="updates (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=0.004, help="learning rate (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(1)

    def trial(kind: str, seed: int) -> Row:
        pairs = options.runs / f"pairs-{seed}.tsv"
        if not pairs.exists():
            write_pairs(pairs, seed)
        return run(configure(kind, pairs, seed, options.steps, options.rate), options.runs / f"{kind}-{seed}")

    keys = [{"kind": kind, "seed": seed} for seed in options.seeds for kind in options.kinds]
    rows = run_trials(options.records, keys, trial)
    print(table(rows))
    if options.out:
        save_figure(draw(rows, options.style), options.out)


if __name__ == "__main__":
    run_command(main)
