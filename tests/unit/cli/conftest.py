"""Runs of every use, trained for two steps, and a way to call a command as a person does."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.run.config import compose
from seqloom.run.train import continue_run, create
from support.configs import TINY, TINY_RECURRENT, WORDS

SUBWORDS: dict[str, Any] = {"text.tokenizer": "unigram", "text.vocab_size": 60, "train.max_steps": 2}
SETTINGS: dict[str, Any] = {**TINY, **SUBWORDS}
SUBJECTS = ("a man", "a dog", "two women", "the girl", "some men")
ACTS = ("is running.", "plays the guitar.", "sits on a red bench.", "are here!")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Path:
    """A folder with the runs lm, mlm and restore (of text.txt; spans are hidden), and pairs (of pairs.tsv)."""
    folder = tmp_path_factory.mktemp("uses")
    lines = [f"{who} {act}" for who in SUBJECTS for act in ACTS]
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in lines), encoding="utf-8")
    for name, model, data, more in (
        ("lm", "lm", "text.txt", {}),
        ("mlm", "mlm", "text.txt", {}),
        ("restore", "transformer", "text.txt", {"data.noise.kind": "infill"}),
        ("pairs", "prefix-lm", "pairs.tsv", {}),
    ):
        values = {**SETTINGS, "model.name": model, "data.train": str(folder / data), **more}
        continue_run(create(compose(values=values), folder / name, quiet=True), quiet=True)
    return folder


RECURRENT: dict[str, Any] = {**TINY_RECURRENT, **SUBWORDS}


@pytest.fixture(scope="session")
def lstm(runs: Path) -> Path:
    """A run of an LSTM with the vocabulary of the run pairs."""
    values = {**RECURRENT, "model.name": "lstm-bilinear", "data.train": str(runs / "pairs.tsv")}
    continue_run(create(compose(values=values), runs / "lstm", quiet=True), quiet=True)
    return runs / "lstm"


@pytest.fixture(scope="session")
def back(runs: Path) -> Path:
    """A run of an LSTM that translates from the second column of pairs.tsv to the first."""
    columns = {"data.source_column": "2", "data.target_column": "1"}
    values = {**RECURRENT, "model.name": "lstm-last", "data.train": str(runs / "pairs.tsv"), **columns}
    continue_run(create(compose(values=values), runs / "back", quiet=True), quiet=True)
    return runs / "back"


@pytest.fixture(scope="session")
def exportable(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Path:
    """A folder with the runs `run` (a Transformer that every format can hold) and `ngram`, and lines.txt."""
    folder = tmp_path_factory.mktemp("export")
    lines = [f"{a} {b}\t{b} {a.upper()}\n" for a in "abcdef" for b in "ghijk"]
    (folder / "pairs.tsv").write_text("".join(lines))
    (folder / "text.txt").write_text("".join(lines).replace("\t", " "))
    (folder / "lines.txt").write_text("a g\n\nb h k\nc\n")
    for name, values in (
        ("run", {**SETTINGS, "model.name": "transformer-postnorm", "data.train": str(folder / "pairs.tsv")}),
        ("ngram", {"model.name": "ngram", "data.train": str(folder / "text.txt")}),
    ):
        continue_run(create(compose(values={**values, **WORDS}), folder / name, quiet=True), quiet=True)
    return folder


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Let this process write files of at most so many bytes: native code gets errors as from a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
