"""Lines that name a feature file (a sequence of vectors, or sound) instead of containing text."""

from __future__ import annotations

import os
import re
from pathlib import Path

SUFFIXES = (".wav", ".npy", ".npz")
_KEYED = re.compile(r"(.*?\.npz)#", re.IGNORECASE)


def feature_file(line: str) -> str:
    """Return the path of the file that a line names: `clips.npz#17` is array 17 of clips.npz."""
    line = line.strip()
    found = _KEYED.match(line) if "#" in line else None  # a fast path: called for every line of every corpus
    return found[1] if found else line


def is_features(line: str) -> bool:
    """Return whether a line has the suffix of a feature file."""
    return feature_file(line).lower().endswith(SUFFIXES)


def resolve_path(line: str, table: str) -> str:
    """Return the line with the folder of its table prepended, if it names a feature file in that folder.

    Other lines stay unchanged: text that happens to end like a file name, and paths from the current folder.
    """
    if is_features(line):
        folder = Path(table).parent
        if os.path.isfile(folder / feature_file(line)):  # Path.is_file raises if the line is too long
            return str(folder / line.strip())
    return line
