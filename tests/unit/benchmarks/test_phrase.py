"""The phrase benchmark: it finds the stages of a training in the log of `seqloom train`."""

from __future__ import annotations

import gzip
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_every_stage_of_a_training_is_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    phrase = importlib.import_module("phrase")
    pairs = (ROOT / "tests" / "golden" / "data" / "pairs.tsv").read_text(encoding="utf-8").splitlines()[:40]
    for part in ("train", "val"):
        for language, side in zip(
            ("en", "de"), zip(*(pair.split("\t") for pair in pairs), strict=True), strict=True
        ):
            phrase.file_of(tmp_path, part, language).write_bytes(gzip.compress("\n".join(side).encode()))
    seconds = phrase.train(tmp_path, tmp_path / "run", ["model.tune_sentences=5", "train.threads=1"])
    assert list(seconds) == ["reading and tokenising", *phrase.STAGES.values()]
