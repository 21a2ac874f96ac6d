"""Learning curves, lengths and scores by length, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqloom.errors import SeqloomError
from seqloom.evaluate.buckets import by_length
from seqloom.inspect.buckets import bucket_picture
from seqloom.inspect.curves import curve_picture
from seqloom.inspect.lengths import length_picture

PNG = b"\x89PNG"
METRICS = [
    {"kind": "train", "step": 1, "loss": 3.0, "seconds": 10.0},
    {"kind": "train", "step": 2, "loss": 2.0, "seconds": 20.0},
    {"kind": "valid", "step": 2, "loss": 2.5, "bleu": 10.0, "best": True, "seconds": 21.0},
]


def test_curves_have_a_panel_for_the_loss_and_one_for_each_metric(tmp_path: Path) -> None:
    curve_picture(METRICS, tmp_path / "curve.svg", title="a run")
    drawing = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert drawing.count('id="axes_') == 2
    assert "bleu on validation" in drawing


def test_a_run_that_has_reported_nothing_has_no_curve(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="reported nothing yet"):
        curve_picture([], tmp_path / "curve.png")
    assert not list(tmp_path.iterdir())


def test_lengths_are_bars(tmp_path: Path) -> None:
    length_picture(
        {"source words": {"1": 3, "2-3": 9}, "target words": {"1": 12}}, tmp_path / "a.png", title="t"
    )
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_buckets_of_several_systems_share_a_picture(tmp_path: Path) -> None:
    sources = [" ".join("a" * n) for n in range(1, 21)]
    references = [[source] for source in sources]
    right = by_length(sources, sources, references, "exact", edges=(5, 10))
    wrong = by_length(sources, ["x"] * 20, references, "exact", edges=(5, 10))
    bucket_picture({"right": right, "wrong": wrong}, tmp_path / "a.svg", title="t")
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "tokens of the source" in drawing and "right" in drawing and "wrong" in drawing


def test_no_buckets_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="no buckets"):
        bucket_picture({"a": []}, tmp_path / "a.png")


@pytest.mark.parametrize("draw", [curve_picture, length_picture, bucket_picture])
def test_an_unknown_kind_of_picture_is_an_error(draw: object, tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"cannot be written as \.gif"):
        draw({}, tmp_path / "a.gif")  # type: ignore[operator]
