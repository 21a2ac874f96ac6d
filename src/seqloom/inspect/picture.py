"""Making and writing a picture: matplotlib without its global state."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.errors import SeqloomError
from seqloom.outputs import write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")


def check_suffix(path: Path) -> None:
    """Raises unless the name says which kind of picture to write."""
    if path.suffix.lower() not in SUFFIXES:
        raise SeqloomError(
            f"A picture cannot be written as {path.suffix or 'a file without suffix'}: {path}.",
            f"end the name in {', '.join(SUFFIXES)}",
        )


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SeqloomError("Pictures need matplotlib.", "pip install 'seqloom[plot]'") from error
    return Figure(figsize=(width, height))


def save_figure(figure: Figure, path: Path, *, tight: bool = False) -> None:
    """Writes PNG, SVG or PDF by the suffix; `tight` fits the panels to their labels."""
    from matplotlib.text import Text

    check_suffix(path)
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a price such as $5 is no formula
    if tight:
        figure.tight_layout()
    picture = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        warnings.filterwarnings("ignore", message="constrained_layout not applied")  # names longer than a panel
        figure.savefig(picture, format=path.suffix[1:].lower(), dpi=150, bbox_inches="tight", pad_inches=0.15)
    write_output(path, picture.getvalue())
