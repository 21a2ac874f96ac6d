"""Panels of the learning curves of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from matplotlib.colors import to_rgb

from seqloom.inspect.curves import LearningCurves

LAYERS = ("source_embedding", "encoder.0", "encoder.1", "decoder.0", "decoder.1", "output")


def _train(step: int, **values: object) -> dict[str, Any]:
    return {"kind": "train", "step": step, "loss": 1.0, "seconds": 60.0 * step, **values}


def _norms(*norms: float | None) -> dict[str, object]:
    return {"gradient_norms": dict(zip(LAYERS, norms, strict=True))}


OLD = [_train(1), {"kind": "valid", "step": 1, "loss": 2.5, "bleu": 1.0, "best": True, "seconds": 61.0}]
NEW = [_train(2, **_norms(1, 2, 3, 4, 5, 0.0)), _train(3, **_norms(1, None, 3, 4, 5, 0.0))]


def test_gradients_have_a_panel_with_a_line_per_layer() -> None:
    figure = LearningCurves([*OLD, *NEW]).plot()
    loss, bleu, gradients = figure.axes
    assert [panel.get_yscale() for panel in (loss, bleu, gradients)] == ["linear", "linear", "log"]
    assert bleu.get_ylabel() == "BLEU on validation"
    lines = dict(zip(LAYERS, gradients.lines, strict=True))
    stacks = ("encoder layers (darker: higher)", "decoder layers (darker: higher)")
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["training loss", "validation loss", "source_embedding", *stacks, "output"]
    assert list(lines["encoder.1"].get_xdata()) == [2.0, 3.0]  # the report without norms is skipped
    assert list(lines["decoder.0"].get_ydata()) == [4.0, 4.0]
    assert math.isnan(lines["encoder.0"].get_ydata()[1])  # the update was skipped: a gap


def test_layers_are_distinguishable() -> None:
    lines = LearningCurves(NEW).plot().axes[-1].lines
    looks = [(line.get_color(), line.get_linestyle()) for line in lines]
    assert len(set(looks)) == len(LAYERS)


def test_a_stack_of_one_layer_has_a_colour_and_other_layers_are_grey() -> None:
    norms = {
        "gradient_norms": dict.fromkeys(("embedding", "encoder.0", "norm", "decoder.0", "last", "output"), 1.0)
    }
    lines = {line.get_label(): line for line in LearningCurves([_train(1, **norms)]).plot().axes[-1].lines}
    colours = {name: set(to_rgb(line.get_color())) for name, line in lines.items()}
    assert [name for name, parts in colours.items() if len(parts) > 1] == ["encoder.0", "decoder.0"]
    assert len({line.get_linestyle() for name, line in lines.items() if "." not in name}) >= 3


def test_runs_without_logged_gradients_have_no_gradient_panel() -> None:
    assert [panel.get_yscale() for panel in LearningCurves(OLD).plot().axes] == ["linear", "linear"]


def test_a_layer_without_gradient_can_be_drawn(tmp_path: Path) -> None:
    LearningCurves([*OLD, *NEW]).save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").count('id="axes_') == 3


def test_a_page_has_every_report() -> None:
    page = LearningCurves([*OLD, *NEW]).to_html()
    assert all(json.dumps(one) in page for one in [*OLD, *NEW])
