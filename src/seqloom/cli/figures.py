"""Figures of commands: checks before the work starts, and output."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.inspect.inspection import Inspection


def check_figure(path: Path | None, style: str, formats: Sequence[str] | None = None) -> None:
    """Raise an error before any work is done if the figure could not be written."""
    from seqloom.inspect.picture import SUFFIXES, check_suffix, require_matplotlib, style_named
    from seqloom.outputs import check_can_write

    style_named(style)
    if path is None:
        return
    check_suffix(path, formats or SUFFIXES)
    check_can_write(path)
    if path.suffix.lower() in SUFFIXES:
        require_matplotlib()


def write_figure(figure: Inspection, path: Path, *, style: str, title: str = "") -> None:
    """Write a figure; print warnings about it on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.save(path, style=style, title=title)
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
