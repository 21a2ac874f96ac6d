"""Lines that are not text but name a file of features: a sequence of vectors, or sound."""

from __future__ import annotations

import os
import re
from pathlib import Path

SUFFIXES = (".wav", ".npy", ".npz")
_KEYED = re.compile(r"(.*?\.npz)#", re.IGNORECASE)


def feature_file(line: str) -> str:
    """The file that a line names: `clips.npz#17` is the array 17 of clips.npz."""
    line = line.strip()
    found = _KEYED.match(line) if "#" in line else None  # asked of every line of every corpus
    return found[1] if found else line


def is_features(line: str) -> bool:
    """Whether a line ends as the name of a file of features does."""
    return feature_file(line).lower().endswith(SUFFIXES)


def located(line: str, table: str) -> str:
    """The line with the path of its features from here, if they are found beside the table that it is in.

    Any other line stays as it is: text that happens to end like a file, and paths from the current folder.
    """
    if is_features(line):
        beside = Path(table).parent
        if os.path.isfile(beside / feature_file(line)):  # unlike Path's, no error if the line is too long
            return str(beside / line.strip())
    return line
