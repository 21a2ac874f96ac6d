"""Spoken-digit recognition by model, for speakers seen in training and for new speakers.

    python benchmarks/digits.py --records digits.jsonl --runs runs/digits --out digits.png [--folds mixed theo]

The input is a recording, DIGIT_SPEAKER_TAKE.wav, as 13 cepstral coefficients with deltas every 10 ms; the
output is the word. The fold `mixed` tests the first five recordings of every digit by every speaker and trains
on the others. A fold named after a speaker tests all recordings of that speaker and trains on the other
speakers. Every run uses recipes/spoken-digits.yaml, except for the model options if the model differs. Each
test file is decoded once, after its run is finished. Recorded trials are skipped, so an interrupted command can
be repeated.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from command import data_folder, run_command
from trials import Row, bar_figure, exact_trial, grouped, run_trials, trial_parser

from seqloom import SeqloomError
from seqloom.inspect.picture import save_figure
from seqloom.run.config import Config, compose, read_yaml

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "spoken-digits.yaml"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
FOLDS = ("mixed", *SPEAKERS)
TESTED, HELD_OUT = range(5, 10), range(10, 13)  # recordings of the fold mixed; numbers start at 5
# Options for models other than the one in the recipe.
OPTIONS: dict[str, dict[str, Any]] = {
    "transformer": {"model.size": "tiny", "model.dropout": 0.3, "train.learning_rate": 0.001},
    "bilstm-classifier": {"model.size": "tiny", "model.dropout": 0.5},
    "transformer-classifier": {"model.size": "tiny", "model.dropout": 0.3, "train.learning_rate": 0.001},
    "hmm-classifier": {"text.stack": 1},
}


class Clip(NamedTuple):
    """One recording."""

    path: Path
    word: str
    speaker: str
    take: int


def find_clips(environment: Mapping[str, str]) -> list[Clip]:
    """Return all recordings in SEQLOOM_DATA, or in shared/data next to the repository."""
    folder = data_folder(environment) / "spoken-digits"
    clips = []
    for path in sorted(folder.glob("*.wav")):
        digit, speaker, take = path.stem.split("_")
        clips.append(Clip(path, WORDS[int(digit)], speaker, int(take)))
    if not clips:
        raise SeqloomError(
            f"No .wav files in {folder}.",
            "Set SEQLOOM_DATA to the folder that contains spoken-digits/DIGIT_SPEAKER_TAKE.wav.",
        )
    return clips


def part_of(clip: Clip, fold: str) -> str:
    """Return the part of a fold that the recording belongs to: train, valid or test."""
    if fold == "mixed":
        return "test" if clip.take in TESTED else "valid" if clip.take in HELD_OUT else "train"
    if clip.speaker == fold:
        return "test"
    return "valid" if clip.take in TESTED else "train"


def write_tables(clips: Iterable[Clip], fold: str, folder: Path) -> dict[str, Path]:
    """Write the tables of a fold, with path and word in each line, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {part: folder / f"{fold}-{part}.tsv" for part in ("train", "valid", "test")}
    lines: dict[str, list[str]] = {part: [] for part in tables}
    for clip in clips:
        lines[part_of(clip, fold)].append(f"{clip.path}\t{clip.word}\n")
    for part, table in tables.items():
        table.write_text("".join(lines[part]), encoding="utf-8")
    return tables


def configure(tables: Mapping[str, Path], model: str, seed: int, steps: int | None = None) -> Config:
    """Return the config of one run: the recipe, with the section `model` replaced for other models."""
    recipe = read_yaml(RECIPE)
    if recipe["model"]["name"] != model:
        recipe["model"] = {"name": model}
    values = {f"{section}.{name}": value for section, every in recipe.items() for name, value in every.items()}
    data = {"data.train": str(tables["train"]), "data.valid": str(tables["valid"]), "train.seed": seed}
    limit = {"train.max_steps": steps} if steps else {}
    return compose(None, {**values, **OPTIONS.get(model, {}), **data, **limit})


def run(config: Config, folder: Path, test: Path) -> Row:
    """Train, decode the test file and return the scores."""
    return exact_trial(config, folder, test)[0]


def by_fold(rows: Sequence[Row]) -> dict[str, dict[str, list[float]]]:
    """Return accuracy and interval by fold and model."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    return grouped(rows, ("fold", FOLDS), ("model", models), "exact")


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table by fold and model, with the mean over new speakers if all were tested."""
    found = by_fold(rows)
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines = ["| fold | " + " | ".join(f"`{model}`" for model in models) + " |", "|---|" + "---|" * len(models)]
    for fold, right in found.items():
        cells = ["{:.1f} [{:.1f}, {:.1f}]".format(*right[model]) if model in right else "–" for model in models]
        lines.append(f"| {fold} | " + " | ".join(cells) + " |")
    new = [[found[name][model][0] for name in SPEAKERS if model in found.get(name, {})] for model in models]
    means = [f"{sum(every) / len(every):.1f}" if len(every) == len(SPEAKERS) else "–" for every in new]
    return "\n".join([*lines, "| new speakers, mean | " + " | ".join(means) + " |"])


def parse() -> argparse.Namespace:
    parser = trial_parser(__doc__)
    parser.add_argument("--models", nargs="+", default=["lstm-additive", "transformer"], metavar="MODEL")
    parser.add_argument("--folds", nargs="+", choices=FOLDS, default=FOLDS)
    parser.add_argument("--steps", type=int, help="number of updates (default: as in the recipe)")
    return parser.parse_args()


def main() -> None:
    options = parse()
    clips = find_clips(os.environ)

    def trial(fold: str, model: str, seed: int) -> Row:
        tables = write_tables(clips, fold, options.runs / "data")
        config = configure(tables, model, seed, options.steps)
        return run(config, options.runs / f"{fold}-{model}-{seed}", tables["test"])

    plan = product(options.seeds, options.folds, options.models)
    keys = [{"fold": fold, "model": model, "seed": seed} for seed, fold, model in plan]
    rows = run_trials(options.records, keys, trial)
    print(table(rows))
    if options.out:
        title = "Spoken digits: speakers seen in training (mixed) and one new speaker at a time"
        figure = bar_figure(
            by_fold(rows), label="accuracy, %", group="speaker", title=title, width=9, style=options.style
        )
        save_figure(figure, options.out)


if __name__ == "__main__":
    run_command(main)
