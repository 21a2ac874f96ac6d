"""Fail if a page of the built site loads a script, style sheet, image or frame from the network."""

from __future__ import annotations

import re
import sys
from pathlib import Path

LOADED = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^"'\s>]+|"""
    r"""@import\s+(?:url\()?["']?(?:https?:)?//[^"')]+|\burl\(["']?(?:https?:)?//[^"')]+"""
)


def network_addresses(folder: Path) -> list[str]:
    """Return every network address that a page or style sheet in the folder loads."""
    files = sorted([*folder.rglob("*.html"), *folder.rglob("*.css")])
    return [
        f"{file.relative_to(folder)}: {found[0]}"
        for file in files
        for found in LOADED.finditer(file.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    if found := network_addresses(Path(sys.argv[1])):
        sys.exit("The site must work offline, but loads:\n" + "\n".join(found))
