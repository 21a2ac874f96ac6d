"""Line styles and display names of models, the same in all figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from seqloom.inspect.picture import COLORS


class LineStyle(NamedTuple):
    """Style of the lines and bars of a model."""

    color: str
    line: str
    hatch: str


_LINES = (("-", ""), ("--", "//"), ("-.", "xx"))  # with their hatches
# The order fixes the styles of the models that are compared most often; other names get one by hash.
_KNOWN = (
    *("transformer", "lstm-last", "lstm-bilinear", "gru-last", "phrase", "rnn-last", "lstm-additive"),
    *("lm", "ngram", "prefix-lm", "hmm", "mlm", "transformer-relative", "hmm-lm"),
)


def line_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """Return a style for each name: its default, or the next one that is still free."""
    found: dict[str, LineStyle] = {}
    for name in names:
        group, color = divmod(_default(name), len(COLORS))
        rotated = COLORS[color:] + COLORS[:color]
        order = [LineStyle(one, *line) for line in _LINES[group:] + _LINES[:group] for one in rotated]
        found[name] = next((style for style in order if style not in found.values()), order[0])
    return found


def _default(name: str) -> int:
    model = name.partition(" ")[0]  # without the folder of the run
    return _KNOWN.index(model) if model in _KNOWN else crc32(model.encode()) % len(COLORS)


def display_names(models: Sequence[str], runs: Sequence[str | Path]) -> list[str]:
    """Return the model name of each run, followed by its folder where several runs have the same model."""
    short = [f"{model} ({Path(run).name})" for model, run in zip(models, runs, strict=True)]
    full = [f"{model} ({run})" for model, run in zip(models, runs, strict=True)]
    models_count, short_count = Counter(models), Counter(short)
    return [
        model if models_count[model] == 1 else brief if short_count[brief] == 1 else long
        for model, brief, long in zip(models, short, full, strict=True)
    ]
