"""Figures of learning curves, lengths and scores by length."""

from __future__ import annotations

from pathlib import Path

import pytest

import seqloom
from seqloom.errors import SeqloomError
from seqloom.evaluate.buckets import Bucket, by_length
from seqloom.evaluate.metrics import Score
from seqloom.inspect.buckets import ScoresByLength
from seqloom.inspect.curves import LearningCurves
from seqloom.inspect.lengths import LengthHistograms
from seqloom.inspect.searchtree import search_tree

RUNS = Path(__file__).parents[2] / "golden" / "fixtures"
PNG = b"\x89PNG"
METRICS = [
    {"kind": "train", "step": 1, "loss": 3.0, "seconds": 10.0},
    {"kind": "train", "step": 2, "loss": 2.0, "seconds": 20.0},
    {"kind": "valid", "step": 2, "loss": 2.5, "bleu": 10.0, "best": True, "seconds": 21.0},
]


def test_curves_have_a_panel_for_the_loss_and_one_for_each_metric(tmp_path: Path) -> None:
    LearningCurves(METRICS, "a run").save(tmp_path / "curve.svg")
    drawing = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert drawing.count('id="axes_') == 2
    assert "BLEU on validation" in drawing


def test_a_run_without_reports_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="not logged anything yet"):
        LearningCurves([])


def test_lengths_are_bars(tmp_path: Path) -> None:
    found = LengthHistograms({"source words": {"1": 3, "2-3": 9}, "target words": {"1": 12}})
    found.save(tmp_path / "a.png", title="t")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_buckets_of_several_systems_share_a_figure(tmp_path: Path) -> None:
    sources = [" ".join("a" * n) for n in range(1, 21)]
    references = [[source] for source in sources]
    right = by_length(sources, sources, references, "exact", edges=(5, 10))
    wrong = by_length(sources, ["x"] * 20, references, "exact", edges=(5, 10))
    ScoresByLength({"right": right, "wrong": wrong}).save(tmp_path / "a.svg", title="t")
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "tokens of the source" in drawing and "right" in drawing and "wrong" in drawing


def test_intervals_have_their_ends_and_do_not_overlap() -> None:
    half = [Bucket(1, 2, "tokens", Score("bleu", 4.0, 0.0, 9.0, "", 3, True, "BLEU"))]
    axes = ScoresByLength({"one": half, "other": half}).plot().axes[0]
    one, other = [path.vertices.tolist() for bars in axes.collections for path in bars.get_paths()]
    assert [y for _, y in one] == [y for _, y in other] == [0.0, 9.0]
    assert one[0][0] < 0 < other[0][0]


def test_a_slide_notes_that_part_of_a_long_search_is_omitted() -> None:
    translator = seqloom.load(RUNS / "transformer")
    short, long = (search_tree(translator, line) for line in ("", "the old cat hides the dog ."))
    assert "omitted" in long.plot(style="slide").axes[-1].get_xlabel()
    assert "omitted" not in long.plot().axes[-1].get_xlabel() + short.plot(style="slide").axes[-1].get_xlabel()


def test_no_buckets_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="no buckets"):
        ScoresByLength({"a": []})
