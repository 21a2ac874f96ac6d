"""docs/check_offline.py finds what a built page loads from the network, and ignores what it only links to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "docs" / "check_offline.py"


def check(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the check on a site of one page."""
    (folder / "index.html").write_text(page, encoding="utf-8")
    return subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "element",
    [
        '<script defer src="https://cdn.example/mathjax.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/sans.css">',
        '<img alt="logo" src="http://img.example/logo.png">',
        "<style>@import url(https://fonts.example/sans.css)</style>",
    ],
)
def test_loading_from_the_network_fails(element: str, tmp_path: Path) -> None:
    done = check(f"<html>{element}</html>", tmp_path)
    assert done.returncode == 1
    assert "index.html" in done.stderr


def test_links_to_the_network_pass(tmp_path: Path) -> None:
    page = '<script src="_static/search.js"></script><a href="https://arxiv.org/abs/1706.03762">paper</a>'
    assert check(page, tmp_path).returncode == 0
