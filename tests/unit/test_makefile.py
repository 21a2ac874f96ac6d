"""Extras that the targets of the Makefile install, according to `make --dry-run`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "target, extras",
    [
        ("demo", ["demo"]),
        ("setup", ["demo", "all"]),
        ("setup-dev", ["demo", "all", "dev"]),
        ("test", ["demo", "all", "dev"]),
        ("test-browser", ["demo", "all", "dev", "browser"]),
        ("lint", ["demo", "all", "dev"]),
        ("docs", ["demo", "all", "docs"]),
    ],
)
def test_targets_install_only_the_extras_they_need(target: str, extras: list[str], tmp_path: Path) -> None:
    command = ["make", "--dry-run", "--no-print-directory", f"VENV={tmp_path / 'venv'}", target]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.findall(r"pip install .*'\.\[(.*)\]'", printed) == extras


def test_help_lists_every_target() -> None:
    command = ["make", "--no-print-directory", "help"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.split()[1] for line in printed.splitlines()] == targets.split()
