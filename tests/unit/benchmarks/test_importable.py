"""Every benchmark can still be imported: most of them are too long to run in a test."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"
# These run in an environment of their own, with the toolkit that they measure or a browser.
ELSEWHERE = {"huggingface_train", "joeynmt_train", "studio"}


def test_what_benchmarks_import_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    failures = {}
    for name in sorted({path.stem for path in FOLDER.glob("*.py")} - ELSEWHERE):
        try:
            importlib.import_module(name)
        except ImportError as error:
            failures[name] = str(error)
    assert not failures
