"""The benchmark of memory: its data, what it sees of a process, and its table."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from seqloom.errors import SeqloomError


@pytest.fixture
def memory() -> ModuleType:
    return importlib.import_module("memory")


def test_shards_have_all_pairs_and_are_the_same_again(
    memory: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "DIFFERENT", 4)
    for name in ("a", "b"):
        memory.write_corpus(tmp_path / name, 103)
    files = [sorted((tmp_path / name / "shards").iterdir()) for name in ("a", "b")]
    texts = [[file.read_text() for file in some] for some in files]
    assert texts[0] == texts[1] and len(set(texts[0])) == memory.SHARDS
    rows = [line.split("\t") for text in texts[0] for line in text.splitlines()]
    assert len(rows) == 103 and all(source.split() == target.split()[::-1] for source, target in rows)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_is_watched_and_its_fault_told(memory: ModuleType, tmp_path: Path) -> None:
    holds = "import time; held = b'x' * 100_000_000; time.sleep(0.5)"
    peak = memory.run_watched([sys.executable, "-c", holds], tmp_path / "cache")
    assert 95 < peak.anonymous < peak.resident < 200 and peak.seconds > 0.5
    with pytest.raises(SeqloomError, match="no such luck"):
        memory.run_watched([sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path / "cache")


def test_what_is_recorded_is_in_the_table(memory: ModuleType, tmp_path: Path) -> None:
    records = tmp_path / "memory.jsonl"
    for seconds in (1.0, 2.0):
        memory.record(records, {"train, store, 5 pairs": memory.Peak(seconds, 1234.5, 99.9)})
    assert memory.table(memory.read(records)).splitlines()[-1] == "| train, store, 5 pairs | 1,234 | 100 | 2 |"
