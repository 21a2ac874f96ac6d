"""How a run learned: losses and validation metrics over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import check_suffix, new_figure, save_figure

_NOT_CURVES = {"kind", "step", "best", "seconds", "loss"}


def curve_picture(lines: Sequence[dict[str, Any]], path: Path, *, title: str = "") -> None:
    """Writes the losses and, beside them, every other validation metric against minutes of training."""
    check_suffix(path)
    train = [line for line in lines if line["kind"] == "train"]
    valid = [line for line in lines if line["kind"] == "valid"]
    if not train and not valid:
        raise SeqloomError("The run has reported nothing yet.", "wait for train.log_every steps")
    metrics = sorted({key for line in valid for key in line} - _NOT_CURVES)
    figure = new_figure(5.0 * (1 + len(metrics)), 3.2)
    panels = figure.subplots(1, 1 + len(metrics), squeeze=False)[0]
    _draw(panels[0], train, "loss", "training", color="0.6")
    _draw(panels[0], valid, "loss", "validation", color="tab:blue", marker="o")
    panels[0].set_ylabel("loss per token")
    panels[0].legend(frameon=False)
    for panel, metric in zip(panels[1:], metrics, strict=True):
        _draw(panel, valid, metric, metric, color="tab:blue", marker="o")
        panel.set_ylabel(f"{metric} on validation")
    for panel in panels:
        panel.set_xlabel("minutes")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    figure.tight_layout()
    save_figure(figure, path)


def _draw(panel: Any, lines: Sequence[dict[str, Any]], key: str, label: str, **style: Any) -> None:
    minutes = [line["seconds"] / 60 for line in lines]
    panel.plot(minutes, [line[key] for line in lines], label=label, markersize=3, **style)
