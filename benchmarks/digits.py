"""Spoken digits by model: how many are written right, by speakers that were heard before and by new ones.

    python benchmarks/digits.py --records digits.jsonl --runs runs/digits --out digits.png [--folds mixed theo]

Sound, DIGIT_SPEAKER_INDEX.wav, becomes 13 cepstra with their slopes every 10 ms; the answer is the word. The
fold `mixed` tests the first five recordings of every digit by every speaker and learns from later ones; a fold
named after a speaker tests all of that speaker and learns from the others. Every run has the options of
recipes/spoken-digits.yaml but those of its model, if it has another. A test file is decoded once, when its run
has ended. What is recorded is not done again, so the command can be broken off and repeated.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from command import run_command
from trials import Row, bar_figure, conduct, exact_trial, grouped, trial_parser

from seqloom import SeqloomError
from seqloom.config import Config, compose, read_yaml
from seqloom.inspect.picture import save_figure

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "spoken-digits.yaml"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
FOLDS = ("mixed", *SPEAKERS)
TESTED, HELD_OUT = range(5, 10), range(10, 13)  # recordings of the mixed fold; the data begins with number 5


# What a model other than the recipe's is better with.
OPTIONS: dict[str, dict[str, Any]] = {
    "transformer": {"model.size": "tiny", "model.dropout": 0.3, "train.learning_rate": 0.001},
    "hmm-classifier": {"text.stack": 1},
}


class Clip(NamedTuple):
    """One recording."""

    path: Path
    word: str
    speaker: str
    index: int


def find_clips(environment: Mapping[str, str]) -> list[Clip]:
    """All recordings, under SEQLOOM_DATA or beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(environment.get("SEQLOOM_DATA", beside)) / "spoken-digits"
    clips = []
    for path in sorted(folder.glob("*.wav")):
        digit, speaker, index = path.stem.split("_")
        clips.append(Clip(path, WORDS[int(digit)], speaker, int(index)))
    if not clips:
        raise SeqloomError(
            f"Spoken digits are needed for this benchmark, but {folder} has no .wav file.",
            "set SEQLOOM_DATA to the folder that holds spoken-digits/: DIGIT_SPEAKER_INDEX.wav",
        )
    return clips


def part_of(clip: Clip, fold: str) -> str:
    """What the recording is for in a fold: train, valid or test."""
    if fold == "mixed":
        return "test" if clip.index in TESTED else "valid" if clip.index in HELD_OUT else "train"
    if clip.speaker == fold:
        return "test"
    return "valid" if clip.index in TESTED else "train"


def write_tables(clips: Iterable[Clip], fold: str, folder: Path) -> dict[str, Path]:
    """The tables of a fold, path and word in every line."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {part: folder / f"{fold}-{part}.tsv" for part in ("train", "valid", "test")}
    lines: dict[str, list[str]] = {part: [] for part in tables}
    for clip in clips:
        lines[part_of(clip, fold)].append(f"{clip.path}\t{clip.word}\n")
    for part, table in tables.items():
        table.write_text("".join(lines[part]), encoding="utf-8")
    return tables


def configure(tables: Mapping[str, Path], model: str, seed: int, steps: int | None = None) -> Config:
    """The options of one run: the recipe's; another model has its own section `model`."""
    recipe = read_yaml(RECIPE)
    if recipe["model"]["name"] != model:
        recipe["model"] = {"name": model}
    values = {f"{section}.{name}": value for section, every in recipe.items() for name, value in every.items()}
    data = {"data.train": str(tables["train"]), "data.valid": str(tables["valid"]), "train.seed": seed}
    limit = {"train.max_steps": steps} if steps else {}
    return compose(None, {**values, **OPTIONS.get(model, {}), **data, **limit})


def run(config: Config, folder: Path, test: Path) -> Row:
    """Trains, decodes the test file and says how it went."""
    return exact_trial(config, folder, test)[0]


def by_fold(rows: Sequence[Row]) -> dict[str, dict[str, list[float]]]:
    """Accuracy and its interval by fold and model."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    return grouped(rows, ("fold", FOLDS), ("model", models), "exact")


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line per fold, a column per model, and the mean over new speakers where all were done."""
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
    parser.add_argument("--steps", type=int, help="updates, if not the recipe's")
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
    rows = conduct(options.records, keys, trial)
    print(table(rows))
    if options.out:
        title = "Spoken digits written right: speakers heard before (mixed), and a new speaker at a time"
        figure = bar_figure(
            by_fold(rows), label="right, %", group="speaker", title=title, width=9, style=options.style
        )
        save_figure(figure, options.out)


if __name__ == "__main__":
    run_command(main)
