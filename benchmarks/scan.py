"""SCAN by kind of position: exact match on the simple, the length and the jump split, as a table and a plot.

    python benchmarks/scan.py --records scan.jsonl --runs runs/scan --out scan.png [--splits simple length]

Every run has the options of recipes/scan.yaml and its own kind of positions. A test file is decoded once, when
its run has ended. What is recorded is not done again, so the command can be broken off and repeated.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from command import run_command
from trials import Row, bar_figure, best_validation, conduct, exact_trial, grouped, trial_parser

from seqloom import SeqloomError
from seqloom.config import Config, compose
from seqloom.inspect.picture import save_figure

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "scan.yaml"
SPLITS = ("simple", "length", "addprim_jump")
POSITIONS = ("none", "sinusoidal", "learned", "relative", "rotary", "alibi", "t5")


def find_scan(environment: Mapping[str, str]) -> Path:
    """The folder of SCAN's files, under SEQLOOM_DATA or beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(environment.get("SEQLOOM_DATA", beside)) / "scan"
    names = [f"{part}_{split}.tsv.gz" for split in SPLITS for part in ("train", "test")]
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise SeqloomError(
            f"SCAN is needed for this benchmark, but {folder} has no {', '.join(missing)}.",
            "set SEQLOOM_DATA to the folder that holds scan/: command, tab, actions in every line",
        )
    return folder


def configure(data: Path, split: str, positions: str, seed: int, steps: int | None) -> Config:
    """The options of one run: the recipe's but for the kind of positions."""
    return compose(
        RECIPE,
        {
            "data.train": str(data / f"train_{split}.tsv.gz"),
            "model.positions": positions,
            "train.seed": seed,
            **({"train.max_steps": steps} if steps else {}),
        },
    )


def broken_off(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Percent of answers that are right as far as they go, and stop too early."""
    pairs = zip(answers, references, strict=True)
    return 100 * sum(right[0].startswith(f"{answer} ") for answer, right in pairs) / len(answers)


def run(config: Config, folder: Path, test: Path) -> Row:
    """Trains, decodes the test file and says how it went."""
    row, answers, testset = exact_trial(config, folder, test)
    return {
        **row,
        "broken_off": broken_off(answers, testset.references),
        "held_out": best_validation(folder, "exact"),
        "steps": config.train.max_steps,
    }


def by_split(rows: Sequence[Row], of: str) -> dict[str, dict[str, list[float]]]:
    """The rows' value and its interval by split and kind of positions."""
    return grouped(rows, ("split", SPLITS), ("positions", POSITIONS), of)


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line per kind of positions, a column per split."""
    exact, short = by_split(rows, "exact"), by_split(rows, "broken_off")
    lines = ["| positions | " + " | ".join(exact) + " | length, right but broken off |"]
    lines.append("|---|" + "---|" * (len(exact) + 1))
    for positions in POSITIONS:
        cells = [_cell(exact[split].get(positions)) for split in exact]
        stopped = short.get("length", {}).get(positions)
        cells.append(f"{stopped[0]:.1f}" if stopped else "–")
        lines.append(f"| `{positions}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(found: Sequence[float] | None) -> str:
    return "{:.1f} [{:.1f}, {:.1f}]".format(*found) if found else "–"


def parse() -> argparse.Namespace:
    parser = trial_parser(__doc__)
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    parser.add_argument("--positions", nargs="+", choices=POSITIONS, default=POSITIONS)
    parser.add_argument("--steps", type=int, help="updates, if not the recipe's")
    return parser.parse_args()


def main() -> None:
    options = parse()
    data = find_scan(os.environ)

    def trial(split: str, positions: str, seed: int) -> Row:
        config = configure(data, split, positions, seed, options.steps)
        return run(config, options.runs / f"{split}-{positions}-{seed}", data / f"test_{split}.tsv.gz")

    plan = product(options.seeds, options.splits, options.positions)
    keys = [{"split": split, "positions": positions, "seed": seed} for seed, split, positions in plan]
    rows = conduct(options.records, keys, trial)
    print(table(rows))
    if options.out:
        title = "SCAN: exact match by kind of position"
        bars = by_split(rows, "exact")
        figure = bar_figure(
            bars, label="exact match, %", group="split", title=title, width=9, style=options.style
        )
        save_figure(figure, options.out)


if __name__ == "__main__":
    run_command(main)
