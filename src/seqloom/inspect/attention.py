"""Where the model looked while it wrote: the attention of one hypothesis as data, as text and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import check_suffix, new_figure, save_figure
from seqloom.types import Hypothesis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Weights = NDArray[np.float64]

END = "</s>"
END_LABEL = "⏎"
SHADES = " ░▒▓█"
LONGEST_LABEL = 24  # characters
# DejaVu, which comes with matplotlib, has no Chinese, Japanese or Korean; take what the machine has.
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
    "Arial Unicode MS",
)


def attention_data(hypothesis: Hypothesis) -> dict[str, Any]:
    """JSON of a hypothesis: its source and target tokens and a row of weights per target token."""
    source, target, weights = _grid(hypothesis.source_tokens, hypothesis.tokens, hypothesis.alignment)
    return {
        "text": hypothesis.text,
        "score": hypothesis.score,
        "source": source,
        "target": target,
        "weights": weights.round(6).tolist(),
    }


def attention_text(
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    weights: Sequence[Sequence[float]],
    *,
    width: int = 100,
) -> str:
    """Lines of Unicode shades: target tokens down, source tokens across, upright where `width` is too small."""
    from rich.cells import cell_len

    source, target, grid = _grid(source_tokens, target_tokens, weights)
    columns, rows = labels(source), labels(target)
    margin = max(map(cell_len, rows))
    cells = [max(2, cell_len(label)) for label in columns]
    if margin + sum(cells) + len(cells) <= width:
        head = [[_fit(label, cell) for label, cell in zip(columns, cells, strict=True)]]
    else:
        cells = [2] * len(columns)
        height = max(map(len, columns))
        upright = [label.rjust(height) for label in columns]
        head = [[_fit(label[line], 2) for label in upright] for line in range(height)]
    step = len(SHADES) / (grid.max() or 1.0)
    levels = np.minimum((grid * step).astype(int), len(SHADES) - 1)
    lines = [" ".join([" " * margin, *part]) for part in head]
    for label, row in zip(rows, levels, strict=True):
        shaded = [SHADES[level] * cell for level, cell in zip(row, cells, strict=True)]
        lines.append(" ".join([_fit(label, margin), *shaded]))
    return "\n".join(line.rstrip() for line in lines)


def attention_picture(
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    weights: Sequence[Sequence[float]],
    path: Path,
    *,
    title: str = "",
) -> None:
    """Writes a heat map, target tokens down and source tokens across: PNG, SVG or PDF by the suffix."""
    check_suffix(path)
    source, target, grid = _grid(source_tokens, target_tokens, weights)
    save_figure(_figure(labels(source), labels(target), grid, title), path)


def labels(tokens: Sequence[str]) -> list[str]:
    """The tokens as a person reads them: SentencePiece's ▁ as · where it tells pieces from words, else gone."""
    words = [token for token in tokens if token != END]
    whole = all(len(token) > 1 and token.startswith("▁") for token in words)
    return [
        END_LABEL if token == END else _label(token.removeprefix("▁") if whole else token) for token in tokens
    ]


def _label(token: str) -> str:
    shown = "␣" if token == "▁" else token.replace("▁", "·")
    shown = "".join(char if char.isprintable() else "�" for char in shown)
    return shown if len(shown) <= LONGEST_LABEL else shown[: LONGEST_LABEL - 1] + "…"


def _fit(label: str, width: int) -> str:
    from rich.cells import set_cell_size

    return set_cell_size(label, width)


def _grid(
    source: Sequence[str], target: Sequence[str], weights: Sequence[Sequence[float]]
) -> tuple[list[str], list[str], Weights]:
    """Tokens and weights, (T, S), that fit each other; one row or column too many is the end of sentence."""
    if not len(weights) or not len(weights[0]):
        raise SeqloomError(
            "There is no attention to show.", "use a model with attention, and a line that is not empty"
        )
    if len({len(row) for row in weights}) > 1:
        raise SeqloomError(
            "The rows of attention weights differ in length.", "give one weight per source token"
        )
    grid = np.asarray(weights, dtype=np.float64)
    rows, columns = grid.shape
    source = [*source, END] if columns == len(source) + 1 else list(source)
    target = [*target, END] if rows == len(target) + 1 else list(target)
    if grid.shape != (len(target), len(source)):
        raise SeqloomError(
            f"The attention weights are {rows} x {columns} "
            f"but there are {len(target)} target and {len(source)} source tokens.",
            "give one row per target token and one column per source token",
        )
    return source, target, grid


def _figure(columns: list[str], rows: list[str], grid: Weights, title: str) -> Figure:
    longest = max(grid.shape)
    # Inches per cell: roomy for a word, tight for a paragraph, and never a picture of more than 40 inches.
    cell = min(max(14 / longest, 0.17), 0.36, 40 / longest)
    size = (cell * len(columns), cell * len(rows))
    figure = new_figure(*size)
    axes = figure.add_axes((0, 0, 1, 1))  # the margins come from bbox_inches="tight", whatever the labels need
    image = axes.imshow(grid, cmap="Blues", vmin=0, vmax=grid.max() or 1.0, aspect="auto")
    bar = figure.add_axes((1 + 0.15 / size[0], 0, 0.1 / size[0], 1))
    figure.colorbar(image, cax=bar, ticks=[0, grid.max() or 1.0], format="%.2g")
    bar.tick_params(labelsize=7, length=0, colors="0.35")
    bar.spines[:].set_visible(False)
    _label_axes(axes, columns, rows, font_size=min(10.0, cell * 32))
    if title:
        heading = axes.set_title(title, loc="left", fontsize=11, pad=10)
        heading.set_parse_math(False)
        heading.set_fontfamily(_installed_fonts())
    return figure


def _label_axes(axes: Axes, columns: list[str], rows: list[str], *, font_size: float) -> None:
    upright = max(map(len, columns)) <= 3
    axes.set_xticks(range(len(columns)), columns, fontsize=font_size)
    axes.set_yticks(range(len(rows)), rows, fontsize=font_size)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    fonts = _installed_fonts()
    for tick in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        tick.set_parse_math(False)  # a price such as $5 is no formula
        tick.set_fontfamily(fonts)
    if not upright:
        for tick in axes.get_xticklabels():
            tick.set(rotation=45, ha="left", va="bottom", rotation_mode="anchor")
    # White lines between the cells keep neighbours apart when both are dark.
    axes.set_xticks(np.arange(1, len(columns)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(rows)) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=min(1.0, font_size / 10))
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_color("0.8")


def _installed_fonts() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return [name for name in FONTS if name in installed]
