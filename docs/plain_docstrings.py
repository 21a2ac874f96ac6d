"""A Sphinx extension for docstrings in plain text: paragraphs, `code`, indented blocks, and columns.

Equations such as |y| or h_ are markup in reStructuredText, so paragraphs are escaped. Indented blocks, and
blocks with columns aligned by spaces, become literal blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Register the conversion of docstrings."""
    app.connect("autodoc-process-docstring", _convert)
    return {"parallel_read_safe": True}


def _convert(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = [converted for block in _blocks(lines) for converted in (*_to_rst(block), "")]


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield the paragraphs and indented blocks between blank lines."""
    for is_blank, block in groupby(lines, key=lambda line: not line.strip()):
        if not is_blank:
            yield list(block)


def _to_rst(block: list[str]) -> list[str]:
    if block[0].startswith(" ") or any("   " in line for line in block):
        return ["::", "", *(f"    {line}" for line in block)]
    return [_escape(line) for line in block]


def _escape(line: str) -> str:
    """Return the line with `code` as inline literals and everything else as text."""
    parts = re.split(r"`+([^`]+)`+", line)
    parts[::2] = [re.sub(r"([\\*_|`])", r"\\\1", text) for text in parts[::2]]
    parts[1::2] = [f"``{code}``" for code in parts[1::2]]
    return "".join(parts)
