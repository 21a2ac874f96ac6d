"""What each kind of encoder attention learns from inputs of a thousand symbols: accuracy and time, with a plot.

    python benchmarks/long_task.py --records long.jsonl --runs runs/long --out long.png [--seeds 1 2]

The task is `needles` (seqloom.data.tasks): four numbered letters among 1,000 to 1,100 others are wanted in
the order of their numbers. The training pairs have all lengths from 32 on, so that there are easy ones to begin
with; the test has long ones only. All runs see the same pairs in the same order. `itself` is a window of
nothing, in which a symbol sees only itself: what can be had without attention in the encoder.
What is recorded is not done again, so the command can be broken off and repeated.
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
from trials import Row, bar_figure, conduct, train_or_resume, trial_parser

from seqloom.config import Config, compose
from seqloom.data.tasks import generate, needles
from seqloom.evaluate.metrics import evaluate
from seqloom.files import write_atomically
from seqloom.inspect.picture import PAGE, Style, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: dict[str, dict[str, Any]] = {
    "full": {"model.encoder.attention": "full"},
    "linformer": {"model.encoder.attention": "linformer"},
    "bigbird": {"model.encoder.attention": "bigbird"},
    "window": {"model.encoder.attention": "window"},
    "itself": {"model.encoder.attention": "window", "model.encoder.window": 0},
}
ROWS = 4  # of the longest sources in an update, or more of shorter ones
SHORTEST = 32  # source to train on
PAIRS, TEST_PAIRS = 12_000, 500


def configure(kind: str, pairs: Path, seed: int, steps: int, rate: float) -> Config:
    """The options of one run: all the same but for the encoder's attention."""
    longest = needles.LONGEST + 1  # and the end of the sentence
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
    """The pairs that all runs of a seed are trained on."""
    random = Random(seed)
    lines = ("\t".join(needles.draw(random, SHORTEST)) + "\n" for _ in range(PAIRS))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "".join(lines))


def run(config: Config, folder: Path) -> Row:
    """Trains, asks about pairs that it has not seen, and says how it went."""
    began = time.process_time()
    translator = train_or_resume(config, folder)
    seconds = time.process_time() - began
    test = list(generate("needles", TEST_PAIRS, seed=1_000_000))
    answers = [best[0].text for best in translator.translate([pair.source for pair in test])]
    exact, wrong = evaluate(answers, [[pair.target or ""] for pair in test], "exact,wer")
    assert config.train.max_steps
    return {
        "exact": exact.value,
        "low": exact.low,
        "high": exact.high,
        "symbols": 100 - wrong.value,
        "steps": config.train.max_steps,
        "milliseconds": 1000 * seconds / config.train.max_steps,  # of this process on a processor
    }


def averages(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """For every kind the mean over its seeds of all that was measured."""
    names = ("exact", "low", "high", "symbols", "steps", "milliseconds")
    groups = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    return {
        kind: {name: statistics.mean(row[name] for row in mine) for name in names}
        for kind, mine in groups.items()
        if mine
    }


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line per kind."""
    lines = ["| attention | whole answers, % | symbols, % | updates | processor ms per update |"]
    lines.append("|---|---|---|---|---|")
    for kind, mean in averages(rows).items():
        exact = "{exact:.1f} [{low:.1f}, {high:.1f}]".format(**mean)
        cells = (exact, f"{mean['symbols']:.1f}", f"{mean['steps']:,.0f}", f"{mean['milliseconds']:.0f}")
        lines.append(f"| `{kind}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: Sequence[Row], style: Style = PAGE) -> Figure:
    """Draw the share of whole answers that are right."""
    found = averages(rows).items()
    bars = {kind: {"exact match": [mean["exact"], mean["low"], mean["high"]]} for kind, mean in found}
    title = "Finding needles among 1,000 symbols, by kind of attention"
    return bar_figure(
        bars, label="whole answers right, %", group="attention", title=title, width=6, style=style
    )


def parse() -> argparse.Namespace:
    parser = trial_parser(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--steps", type=int, default=1000, help="updates (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=0.004, help="of learning (default: %(default)s)")
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
    rows = conduct(options.records, keys, trial)
    print(table(rows))
    if options.out:
        save_figure(draw(rows, options.style), options.out)


if __name__ == "__main__":
    run_command(main)
