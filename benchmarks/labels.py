"""Part-of-speech tagging with neural taggers, on the sentences of `benchmarks/hmm.py --tags`.

    python benchmarks/labels.py --runs runs/tags [--model transformer-tagger] [--seeds 1 2 3] [--json FILE]

The first 900 English sentences of the PUD treebank are for training, 50 of them for the choice of the
checkpoint; the last 100 are the test. Every seed is tested alone, and all together as an ensemble. The test
sentences are decoded once, after the training. The options were selected by training on 800 of the 900.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command import run_command
from hmm import TRAINED, sentences

from seqloom import load_ensemble
from seqloom.decode.translator import Translator
from seqloom.run.train import train

SETTINGS: dict[str, Any] = {
    "model.dropout": 0.5,
    "text.sampling": "source",
    "text.sampling_alpha": 0.1,
    "train.batch_tokens": 700,
    "train.learning_rate": 0.002,
    "train.warmup": 100,
    "train.checkpoint_every": 150,
    "train.max_epochs": 35,
    "train.threads": 1,
}
# Options for models other than the bidirectional LSTM.
OPTIONS: dict[str, dict[str, Any]] = {
    "transformer-tagger": {"model.dropout": 0.3, "text.sampling_alpha": 0.2, "train.learning_rate": 0.001},
}

Sentence = tuple[list[str], list[str]]  # words and tags


def write_table(path: Path, rows: Sequence[Sentence]) -> Path:
    """Write words and tags of each sentence in a line, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{' '.join(words)}\t{' '.join(tags)}\n" for words, tags in rows), encoding="utf-8")
    return path


def accuracy(translator: Translator, tested: Sequence[Sentence], known: set[str]) -> dict[str, float]:
    """Return the percentage of correct tags of all words, and of words that are not in the training data."""
    outputs = translator.translate([" ".join(words) for words, _ in tested])
    predicted = [tag for best in outputs for tag in best[0].text.split()]
    correct = [tag for _, tags in tested for tag in tags]
    hits = np.array([one == two for one, two in zip(predicted, correct, strict=True)])
    is_new = np.array([word not in known for words, _ in tested for word in words])
    return {"accuracy": 100 * float(hits.mean()), "accuracy_new_words": 100 * float(hits[is_new].mean())}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--runs", type=Path, required=True, metavar="FOLDER", help="folder for the runs")
    parser.add_argument("--model", default="bilstm-tagger", help="architecture (default: %(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--epochs", type=int, help="passes over the data (default: 35)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    return parser.parse_args()


def main() -> None:
    options = parse()
    rows = list(sentences(os.environ))
    table = write_table(options.runs / "train.tsv", rows[:TRAINED])
    write_table(options.runs / "test.tsv", rows[TRAINED:])
    known = {word for words, _ in rows[:TRAINED] for word in words}
    settings = {**SETTINGS, **OPTIONS.get(options.model, {})}
    if options.epochs:
        settings["train.max_epochs"] = options.epochs
    folders, found = [], {}
    for seed in options.seeds:
        folders.append(options.runs / f"{options.model}-{seed}")
        if not folders[-1].exists():
            chosen = {**settings, "train.seed": seed}
            train(
                table,
                out=folders[-1],
                model=options.model,
                size="tiny",
                settings=chosen,
                plan="fixed",
                quiet=True,
            )
        found[f"seed {seed}"] = accuracy(load_ensemble(folders[-1:]), rows[TRAINED:], known)
        print(f"seed {seed}", found[f"seed {seed}"], flush=True)
    found["ensemble"] = accuracy(load_ensemble(folders), rows[TRAINED:], known)
    print("ensemble", found["ensemble"])
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    run_command(main)
