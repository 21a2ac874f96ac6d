"""Code shared by all benchmarks: the data folder, figure options, error messages, failed contestants."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from seqloom import SeqloomError
from seqloom.inspect.picture import PAGE, STYLES, check_suffix, style_named


def data_folder(environment: Mapping[str, str]) -> Path:
    """Return the data folder: SEQLOOM_DATA, or shared/data next to the repository."""
    return Path(environment.get("SEQLOOM_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def run_command(main: Callable[[], None]) -> None:
    """Run a benchmark; print a SeqloomError without a traceback and exit with code 2."""
    try:
        main()
    except SeqloomError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


class Failures:
    """Contestants that failed; the benchmark continues without them, and exits with an error at the end."""

    def __init__(self) -> None:
        self._errors: dict[str, SeqloomError] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._errors

    @contextmanager
    def collect(self, name: str) -> Iterator[None]:
        """Keep the error of a contestant instead of stopping the benchmark."""
        try:
            yield
        except SeqloomError as error:
            self._errors[name] = error
            print(f"{name} failed: {error}", file=sys.stderr, flush=True)

    def raise_if_any(self) -> None:
        """Raise an error that names all contestants that failed."""
        if self._errors:
            names = ", ".join(self._errors)
            raise SeqloomError(
                f"These systems failed: {names}.", "their messages are above; the results are of the others"
            )


def add_figure_options(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add --out and --style. Both are validated before the benchmark starts."""
    parser.add_argument(
        "--out",
        type=_figure_path,
        required=required,
        metavar="FIGURE",
        help="write a figure (.png, .svg or .pdf)",
    )
    parser.add_argument(
        "--style",
        type=style_named,
        default=PAGE,
        metavar=f"{{{','.join(STYLES)}}}",
        help="style of the figure (default: page)",
    )


def _figure_path(name: str) -> Path:
    path = Path(name)
    check_suffix(path)
    return path
