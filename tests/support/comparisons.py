"""Comparisons of tiny models, whose systems run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqloom.compare.folder import ComparisonFolder, Setup, System
from seqloom.compare.runner import run_comparison, set_up
from seqloom.compare.settings import CompareSettings
from seqloom.compare.worker import run_system

TINY_LSTM = {"model.size": "tiny", "model.width": 16, "model.dropout": 0, "search.longest": 6}
MODELS: dict[str, Any] = {
    "word-based": {},
    "lstm-last": TINY_LSTM,
    "lstm-bilinear": TINY_LSTM,
}
OPTIONS = ("train.threads=1", "train.checkpoint_every=2", "train.log_every=2", "search.beam=2")


def in_process(folder: ComparisonFolder, system: System) -> int:
    """Train and decode a system in this process."""
    return run_system(folder, system.name)


def write_pairs(path: Path) -> Path:
    """Write pairs of three words; the first word occurs in every line, the others are rare or not."""
    words = [f"w{i}" for i in range(30)]
    lines = [f"the {words[i % 30]} {words[(i * i) % 17]}" for i in range(160)]
    path.write_text("".join(f"{line}\t{line.upper()}\n" for line in dict.fromkeys(lines)), encoding="utf-8")
    return path


def settings_for(pairs: Path, **changes: Any) -> CompareSettings:
    """Return the settings of a comparison of four updates."""
    values = {"pairs": str(pairs), "models": MODELS, "steps": 4, "set": OPTIONS, **changes}
    return CompareSettings.checked(values, "compare")


def compared(folder: Path, settings: CompareSettings) -> tuple[ComparisonFolder, Setup]:
    """Run a comparison in this process."""
    comparison = ComparisonFolder(folder)
    setup = set_up(comparison, settings)
    assert run_comparison(comparison, setup, start=in_process)
    return comparison, setup
