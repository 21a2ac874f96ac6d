"""Every benchmark can still be imported: most of them are too long to run in a test."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"
# These run in an environment of their own, with the toolkit that they measure.
ELSEWHERE = {"huggingface_train", "joeynmt_train"}


@pytest.mark.parametrize("name", sorted({path.stem for path in FOLDER.glob("*.py")} - ELSEWHERE))
def test_what_a_benchmark_imports_exists(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    importlib.import_module(name)
