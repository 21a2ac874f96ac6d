"""Formats of documents: each divides a file into text that stays unchanged and blocks that are translated."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from seqloom.document.formats.base import Format
from seqloom.errors import require_known

# Modules are imported when they are used: some need libraries of their own.
_MODULES = {
    "text": "plain",
    "markdown": "markdown",
    "subtitles": "subtitles",
    "po": "po",
    "json": "json_file",
    "html": "html_file",
    "xliff": "xliff",
    "docx": "docx",
    "odt": "odt",
}
_SUFFIXES = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".srt": "subtitles",
    ".vtt": "subtitles",
    ".po": "po",
    ".pot": "po",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".docx": "docx",
    ".odt": "odt",
}
FORMATS = tuple(_MODULES)


@cache
def find_format(name: str) -> Format:
    """Return the format with this name."""
    require_known("document format", name, FORMATS)
    found: Format = import_module(f"seqloom.document.formats.{_MODULES[name]}").FORMAT
    return found


def format_of(path: str | Path) -> str | None:
    """Return the name of the format of a file by its suffix; None for other files, and for plain text."""
    return _SUFFIXES.get(Path(path).suffix.lower())


__all__ = ["FORMATS", "Format", "find_format", "format_of"]
