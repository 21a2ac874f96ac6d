"""The panels of a run's learning curves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from seqloom.inspect.curves import curve_picture

LAYERS = ("source_embedding", "encoder.0", "encoder.1", "decoder.0", "decoder.1", "output")


def _train(step: int, **values: object) -> dict[str, Any]:
    return {"kind": "train", "step": step, "loss": 1.0, "seconds": 60.0 * step, **values}


def _norms(*norms: float | None) -> dict[str, object]:
    return {"gradient_norms": dict(zip(LAYERS, norms, strict=True))}


OLD = [_train(1), {"kind": "valid", "step": 1, "loss": 2.5, "bleu": 1.0, "best": True, "seconds": 61.0}]
NEW = [_train(2, **_norms(1, 2, 3, 4, 5, 0.0)), _train(3, **_norms(1, None, 3, 4, 5, 0.0))]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures, kept instead of written."""
    figures: list[Any] = []
    monkeypatch.setattr("seqloom.inspect.curves.save_figure", lambda figure, path, **_: figures.append(figure))
    return figures


def test_gradients_have_a_panel_of_their_own_with_a_line_for_each_layer(drawn: list[Any]) -> None:
    curve_picture([*OLD, *NEW], Path("a.png"))
    loss, bleu, gradients = drawn[0].axes
    assert [panel.get_yscale() for panel in (loss, bleu, gradients)] == ["linear", "linear", "log"]
    assert bleu.get_ylabel() == "bleu on validation"
    lines = {line.get_label(): line for line in gradients.lines}
    assert tuple(lines) == LAYERS
    assert [text.get_text() for text in gradients.get_legend().get_texts()] == list(LAYERS)
    assert list(lines["encoder.1"].get_xdata()) == [2.0, 3.0]  # the line without them is passed over
    assert list(lines["decoder.0"].get_ydata()) == [4.0, 4.0]
    assert math.isnan(lines["encoder.0"].get_ydata()[1])  # the update was skipped: a gap


def test_layers_can_be_told_apart(drawn: list[Any]) -> None:
    curve_picture(NEW, Path("a.png"))
    looks = [(line.get_color(), line.get_linestyle()) for line in drawn[0].axes[-1].lines]
    assert len(set(looks)) == len(LAYERS)


def test_runs_that_did_not_tell_their_gradients_have_no_panel_for_them(drawn: list[Any]) -> None:
    curve_picture(OLD, Path("a.png"))
    assert [panel.get_yscale() for panel in drawn[0].axes] == ["linear", "linear"]


def test_a_layer_without_gradient_does_not_spoil_the_picture(tmp_path: Path) -> None:
    curve_picture([*OLD, *NEW], tmp_path / "a.svg")
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert drawing.count('id="axes_') == 3
    assert all(f"<!-- {layer} -->" in drawing for layer in LAYERS)
