"""Drawing and writing of figures in a common style, without the global state of pyplot."""

from __future__ import annotations

import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.errors import SeqloomError, unknown
from seqloom.inspect.labels import literal, text_width
from seqloom.outputs import write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
DPI = 150
# The palette of Okabe and Ito (2008), which is safe for all kinds of colour vision.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, YELLOW = "#E69F00", "#56B4E9", "#000000", "#F0E442"
COLORS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)  # yellow is too pale for lines on white
# DejaVu, which comes with matplotlib, lacks many scripts; the first installed font with a glyph is used.
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "MS Gothic",
    "Malgun Gothic",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "Arial Unicode MS",
)
_MISSING_GLYPH = re.compile(r"Glyph (\d+) .*missing from")
_TITLE_LINES = 3
_THIN_LINES = ("axes.linewidth", "grid.linewidth", "xtick.major.width", "ytick.major.width")


@dataclass(frozen=True)
class Style:
    """Style of a figure: text size in points and, for a slide, figure size in inches."""

    name: str
    text: float
    size: tuple[float, float] | None = None  # None: as large as the content needs

    @property
    def line(self) -> float:
        """Height of a line of text in inches."""
        return 1.3 * self.text / 72


PAGE = Style("page", 10)
SLIDE = Style("slide", 16, (40 / 3, 7.5))  # 16:9, the default of presentation programs
STYLES = {style.name: style for style in (PAGE, SLIDE)}


class MissingGlyphWarning(UserWarning):
    """Some characters of a figure appear as boxes."""


def style_named(name: str) -> Style:
    """Return the style called `page` or `slide`."""
    if name not in STYLES:
        raise unknown("style", name, STYLES)
    return STYLES[name]


def check_suffix(path: Path, formats: Sequence[str] = SUFFIXES) -> None:
    """Raise an error unless the file name ends in one of the formats."""
    if path.suffix.lower() not in formats:
        raise SeqloomError(
            f"A figure cannot be written as {path.suffix or 'a file without suffix'}: {path}.",
            f"use a file name that ends in {', '.join(formats)}",
        )


def require_matplotlib() -> None:
    """Raise an error that names the missing extra if figures cannot be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise SeqloomError(
            "Figures need matplotlib, which is not installed.", "pip install 'seqloom[plot]'"
        ) from error


@contextmanager
def canvas(width: float, height: float, *, style: Style, title: str = "") -> Iterator[Figure]:
    """Yield an empty figure to draw into, and lay it out when the block ends.

    The size is in inches; slides have a fixed size. Fonts, sizes and colours come from the style, not from the
    user's matplotlib settings.
    """
    require_matplotlib()
    from matplotlib import style as matplotlib_style

    from seqloom.inspect.notebook import NotebookFigure

    size = style.size or (width, height)
    with matplotlib_style.context(_settings(style), after_reset=True):
        figure = NotebookFigure(figsize=size, layout="constrained")
        if title:
            figure.suptitle(_wrapped(title, size[0], 1.2 * style.text), x=0.1 / size[0], ha="left")
        yield figure
        _thin_log_ticks(figure)
        with _one_warning_about_glyphs():
            figure.draw_without_rendering()  # creates the ticks while the style is active


def _thin_log_ticks(figure: Figure) -> None:
    """Label only powers on logarithmic axes, and 2 and 5 in between if fewer than two are in view."""
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if axis.get_scale() == "log" and isinstance(axis.get_minor_formatter(), LogFormatterSciNotation):
            low, high = axis.get_view_interval()
            if sum(low <= tick <= high for tick in axis.get_majorticklocs()) < 2:
                axis.set_minor_locator(LogLocator(subs=(2, 5)))
                axis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(math.inf, math.inf)))
            else:
                axis.set_minor_formatter(NullFormatter())


def _settings(style: Style) -> dict[str, Any]:
    """Return the rcParams of a style."""
    from cycler import cycler
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return {
        "font.size": style.text,
        "font.family": [name for name in FONTS if name in installed],
        "figure.titlesize": 1.2 * style.text,
        "figure.constrained_layout.h_pad": 0.08,
        "figure.constrained_layout.w_pad": 0.08,
        "axes.titlesize": "medium",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=COLORS),
        "axes.formatter.useoffset": False,
        "grid.color": "0.88",
        "legend.frameon": False,
        "legend.fontsize": "medium",
        "errorbar.capsize": 0.3 * style.text,
        "lines.linewidth": 0.16 * style.text,
        "lines.markersize": 0.45 * style.text,
        **dict.fromkeys(_THIN_LINES, 0.08 * style.text),
    }


def _wrapped(title: str, width: float, size: float) -> str:
    """Break a title into lines that fit the figure."""
    letters = int(len(title) * (width - 0.3) / max(text_width(title, size), 0.01))
    return literal(
        "\n".join(
            line
            for part in title.split("\n")
            for line in textwrap.wrap(part, max(letters, 8), max_lines=_TITLE_LINES, placeholder=" …")
        )
    )


@contextmanager
def _one_warning_about_glyphs() -> Iterator[None]:
    """Replace the warnings about missing glyphs, one per character, with a single one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    missing: dict[str, None] = {}  # in the order of appearance
    for one in caught:
        if match := _MISSING_GLYPH.match(str(one.message)):
            missing[chr(int(match[1]))] = None
        elif "constrained_layout not applied" not in str(one.message):  # labels longer than their panel
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if missing:
        warnings.warn(
            f"No installed font has the characters {''.join(missing)[:20]}: they appear as boxes. "
            "Install a font that has them, e.g. Noto Sans CJK (fonts-noto-cjk).",
            MissingGlyphWarning,
            stacklevel=6,
        )


def legend_below(figure: Figure, handles: Sequence[Any], style: Style) -> None:
    """Add one legend for all panels below them, in as many columns as fit."""
    width = figure.get_size_inches()[0] - 0.3
    shown = [
        re.sub(r"[${}^]", "", handle.get_label()) for handle in handles
    ]  # rendered formulas are shorter than their TeX
    widths = [text_width(label, style.text) + 4 * style.text / 72 for label in shown]
    rows = next(n for n in range(1, len(widths) + 1) if n == len(widths) or _columns_width(widths, n) <= width)
    columns = math.ceil(len(widths) / rows)
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, columnspacing=1.2)


def _columns_width(widths: Sequence[float], rows: int) -> float:
    """Return the width of a legend whose columns have this number of rows."""
    return sum(max(widths[first : first + rows]) for first in range(0, len(widths), rows))


def rendered(figure: Figure, format: str) -> bytes:
    """Return the figure as the content of a PNG, SVG or PDF file."""
    picture = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # reported when it was laid out
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure.savefig(picture, format=format, dpi=DPI)
    return picture.getvalue()


def save_figure(figure: Figure, path: Path) -> None:
    """Write PNG, SVG or PDF, chosen by the suffix; a failure leaves no partial file."""
    check_suffix(path)
    write_output(path, rendered(figure, path.suffix[1:].lower()))
