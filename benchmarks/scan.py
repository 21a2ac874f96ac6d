"""SCAN by kind of position: exact match on the simple, length and jump splits, as a table and a figure.

    python benchmarks/scan.py --records scan.jsonl --runs runs/scan --out scan.png [--splits simple length]

Every run uses recipes/scan.yaml with its own kind of positions. Each test file is decoded once, after its run
is finished. Recorded trials are skipped, so an interrupted command can be repeated.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from command import data_folder, run_command
from trials import Row, bar_figure, best_validation, exact_trial, grouped, run_trials, trial_parser

from seqloom import SeqloomError
from seqloom.inspect.picture import save_figure
from seqloom.run.config import Config, compose

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "scan.yaml"
SPLITS = ("simple", "length", "addprim_jump")
POSITIONS = ("none", "sinusoidal", "learned", "relative", "rotary", "alibi", "t5")


def find_scan(environment: Mapping[str, str]) -> Path:
    """Return the folder of SCAN in SEQLOOM_DATA, or in shared/data next to the repository."""
    folder = data_folder(environment) / "scan"
    names = [f"{part}_{split}.tsv.gz" for split in SPLITS for part in ("train", "test")]
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise SeqloomError(
            f"SCAN not found: {folder} does not contain {', '.join(missing)}.",
            "Set SEQLOOM_DATA to the folder that contains scan/ (each line: command, tab, actions).",
        )
    return folder


def configure(data: Path, split: str, positions: str, seed: int, steps: int | None) -> Config:
    """Return the config of one run: the recipe with another kind of positions."""
    return compose(
        RECIPE,
        {
            "data.train": str(data / f"train_{split}.tsv.gz"),
            "model.positions": positions,
            "train.seed": seed,
            **({"train.max_steps": steps} if steps else {}),
        },
    )


def truncated_share(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the percentage of outputs that are correct but end too early."""
    pairs = zip(outputs, references, strict=True)
    return 100 * sum(right[0].startswith(f"{output} ") for output, right in pairs) / len(outputs)


def run(config: Config, folder: Path, test: Path) -> Row:
    """Train, decode the test file and return the scores."""
    row, outputs, testset = exact_trial(config, folder, test)
    return {
        **row,
        "broken_off": truncated_share(outputs, testset.references),
        "held_out": best_validation(folder, "exact"),
        "steps": config.train.max_steps,
    }


def by_split(rows: Sequence[Row], of: str) -> dict[str, dict[str, list[float]]]:
    """Return a value and its interval by split and kind of positions."""
    return grouped(rows, ("split", SPLITS), ("positions", POSITIONS), of)


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table with one row per kind of positions and one column per split."""
    exact, short = by_split(rows, "exact"), by_split(rows, "broken_off")
    lines = ["| positions | " + " | ".join(exact) + " | length, correct but truncated |"]
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
    parser.add_argument("--steps", type=int, help="number of updates (default: as in the recipe)")
    return parser.parse_args()


def main() -> None:
    options = parse()
    data = find_scan(os.environ)

    def trial(split: str, positions: str, seed: int) -> Row:
        config = configure(data, split, positions, seed, options.steps)
        return run(config, options.runs / f"{split}-{positions}-{seed}", data / f"test_{split}.tsv.gz")

    plan = product(options.seeds, options.splits, options.positions)
    keys = [{"split": split, "positions": positions, "seed": seed} for seed, split, positions in plan]
    rows = run_trials(options.records, keys, trial)
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
