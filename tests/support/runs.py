"""Run directories: functions that make one, and the set that all tests share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.train import continue_run, create
from support.configs import FOUR_STEPS, TINY, TINY_FITTED, TINY_RECURRENT, TINY_TRANSFORMER, WORDS, Settings

SUBJECTS = ("a man", "a dog", "two women", "the girl", "some men")
ACTS = ("is running.", "plays the guitar.", "sits on a red bench.", "are here!")
SUBWORDS: Settings = {"text.tokenizer": "unigram", "text.vocab_size": 60, "train.max_steps": 2}
TWO_STEPS: Settings = {**TINY, **SUBWORDS}
LABELS: Settings = {"model.size": "tiny", "data.valid_share": 0.2, "train.threads": 1, "train.max_steps": 2}
LSTM: Settings = {**TINY_RECURRENT, **SUBWORDS}
DIGITS: Settings = {**TINY, **FOUR_STEPS}  # checkpoints at 2 and 4
# Name, model, data and settings. `restore` fills spans; `back` translates from the second column to the first.
RUNS: Mapping[str, tuple[str, str, Settings]] = {
    "lm": ("lm", "text.txt", TWO_STEPS),
    "mlm": ("mlm", "text.txt", TWO_STEPS),
    "restore": ("transformer", "text.txt", {**TWO_STEPS, "data.noise.kind": "infill"}),
    "pairs": ("prefix-lm", "pairs.tsv", TWO_STEPS),
    "lstm": ("lstm-bilinear", "pairs.tsv", LSTM),
    "back": ("lstm-last", "pairs.tsv", {**LSTM, "data.source_column": "2", "data.target_column": "1"}),
    "phrase": ("phrase", "pairs.tsv", {**TINY_FITTED, "model.tune_rounds": 1}),
    "exportable": ("transformer-postnorm", "letters.tsv", {**TWO_STEPS, **WORDS}),
    "ngram": ("ngram", "letters.txt", TINY_FITTED),
    "transformer": ("transformer", "digits.tsv", DIGITS),
    "word-mlm": ("mlm", "digits.txt", DIGITS),
    "hmm-lm": ("hmm-lm", "digits.txt", TINY_FITTED),
    "hmm": ("hmm", "tags.tsv", TINY_FITTED),
    "tagger": ("bilstm-tagger", "tags.tsv", {**LABELS, "model.width": 16}),
    "classifier": ("transformer-classifier", "clips.tsv", {**LABELS, **TINY_TRANSFORMER}),
    "hmm-classifier": ("hmm-classifier", "clips.tsv", {"model.size": "tiny", "data.valid_share": 0.2}),
}


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write a text file and return its path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_digits(path: Path) -> Path:
    """Write sixty pairs of two digits and the first of them."""
    return write_lines(path, (f"{i % 7} {i % 5}\t{i % 7}" for i in range(60)))


def create_run(out: Path, data: Path, settings: Mapping[str, Any]) -> Run:
    """Create a run directory without training."""
    return create(compose(values={**settings, "data.train": str(data)}), out, quiet=True)


def train_run(out: Path, data: Path, settings: Mapping[str, Any]) -> Run:
    """Train or fit a run."""
    run = create_run(out, data, settings)
    continue_run(run, quiet=True)
    return run


class SharedRuns:
    """A folder of data and of runs that are made once. A test that changes a run has to copy it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._built: dict[Path, dict[str, int]] = {}
        texts = [f"{subject} {act}" for subject in SUBJECTS for act in ACTS]
        letters = [f"{a} {b}\t{b} {a.upper()}" for a in "abcdef" for b in "ghijk"]
        write_lines(folder / "text.txt", texts)
        write_lines(folder / "lines.txt", ["a man", "two dogs"])
        write_lines(folder / "pairs.tsv", (f"{text}\t{text.upper()}" for text in texts))
        write_lines(folder / "letters.tsv", letters)
        write_lines(folder / "letters.txt", (line.replace("\t", " ") for line in letters))
        write_lines(folder / "few-letters.txt", ["a g", "", "b h k", "c"])
        write_digits(folder / "digits.tsv")
        write_lines(folder / "digits.txt", (f"{i % 7} {i % 5} {i % 3}" for i in range(60)))
        write_lines(folder / "tags.tsv", (f"{i % 7} {i % 5}\tA{i % 2} B{i % 3}" for i in range(60)))
        write_lines(folder / "clips.tsv", (f"{i}.npy\t{'AB'[i % 2]}" for i in range(20)))
        draw = np.random.default_rng(1)
        for i in range(20):
            np.save(folder / f"{i}.npy", draw.normal(i % 2, 1, (4 + i % 3, 2)).astype(np.float32))

    def build(self, *names: str) -> Path:
        """Train or fit those of the runs that are missing, and return the folder.

        Called by fixtures alone: what a test patches must not have an effect on a run of other tests.
        """
        for path in (self.folder / name for name in names):
            if path not in self._built:
                model, data, settings = RUNS[path.name]
                train_run(path, self.folder / data, {**settings, "model.name": model})
                self._built[path] = _times(path)
        return self.folder

    def check_unchanged(self) -> None:
        """Raise an AssertionError if a test has changed a run."""
        for path, before in self._built.items():
            assert _times(path) == before, f"a test changed the shared run {path.name}"


def _times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
