"""The look of each model: the same colour in all figures, and a name instead of a path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from seqloom.inspect.picture import COLORS


class LineStyle(NamedTuple):
    """How the lines and bars of a model are drawn."""

    color: str
    line: str
    hatch: str


_LINES = (("-", ""), ("--", "//"), ("-.", "xx"))  # with their hatches
# The order fixes the looks of the models that are compared most often; any other name has a look of its own.
_KNOWN = (
    *("transformer", "lstm-last", "lstm-bilinear", "gru-last", "phrase", "rnn-last", "lstm-additive"),
    *("lm", "ngram", "prefix-lm", "hmm", "mlm", "transformer-relative", "hmm-lm"),
)


def line_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """Return a look for each name: its usual one, or the next that no earlier name has taken."""
    found: dict[str, LineStyle] = {}
    for name in names:
        group, color = divmod(_usual(name), len(COLORS))
        turned = COLORS[color:] + COLORS[:color]
        order = [LineStyle(one, *line) for line in _LINES[group:] + _LINES[:group] for one in turned]
        found[name] = next((look for look in order if look not in found.values()), order[0])
    return found


def _usual(name: str) -> int:
    model = name.partition(" ")[0]  # without the folder of the run
    return _KNOWN.index(model) if model in _KNOWN else crc32(model.encode()) % len(COLORS)


def display_names(models: Sequence[str], runs: Sequence[str | Path]) -> list[str]:
    """Return the model name of each run, followed by its folder where several runs have the same model."""
    short = [f"{model} ({Path(run).name})" for model, run in zip(models, runs, strict=True)]
    full = [f"{model} ({run})" for model, run in zip(models, runs, strict=True)]
    often, oftener = Counter(models), Counter(short)
    return [
        model if often[model] == 1 else near if oftener[near] == 1 else far
        for model, near, far in zip(models, short, full, strict=True)
    ]
