"""What all benchmarks share as commands: error messages without a traceback, and options for figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from seqloom import SeqloomError
from seqloom.inspect.picture import PAGE, STYLES, check_suffix, style_named


def run_command(main: Callable[[], None]) -> None:
    """Run a benchmark; a SeqloomError is printed and ends it with exit code 2."""
    try:
        main()
    except SeqloomError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def add_figure_options(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add --out and --style; both are checked before anything is measured."""
    parser.add_argument(
        "--out",
        type=_figure_path,
        required=required,
        metavar="FIGURE",
        help="figure: .png, .svg or .pdf",
    )
    parser.add_argument(
        "--style",
        type=style_named,
        default=PAGE,
        metavar=f"{{{','.join(STYLES)}}}",
        help="of the figure (default: page)",
    )


def _figure_path(name: str) -> Path:
    path = Path(name)
    check_suffix(path)
    return path
