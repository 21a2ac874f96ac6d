"""Figures in docs/images: each is shown by a page that names the command that draws it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
IMAGE = re.compile(r"!\[[^\]]*\]\([./\w]*images/([\w.-]+)\)")
DRAWING_COMMAND = re.compile(r"--(?:out|plot) \S+\.png|\.save\(\"\S+\.png\"|seqloom demo|benchmarks/\w+\.py")


def test_every_figure_has_a_page_with_its_command() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    with_command = {name for text in texts if DRAWING_COMMAND.search(text) for name in IMAGE.findall(text)}
    assert {image.name for image in (ROOT / "docs" / "images").iterdir()} == with_command
