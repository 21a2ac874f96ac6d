from __future__ import annotations

from pathlib import Path

import pytest

from seqloom.errors import SeqloomError
from seqloom.inspect.trees import tree_picture


def test_the_figure_has_every_word_and_every_position(tmp_path: Path) -> None:
    tree_picture("Bush held a $talk$", "2 0 4 2", tmp_path / "a.svg", title="a tree")
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for label in ("Bush  1", "held  0", "a  2", "$talk$  1", "<!-- Bush -->", "a tree", "<!-- −3 -->"):
        assert label.replace("−", "-") in drawing, label


def test_the_figure_of_one_word(tmp_path: Path) -> None:
    tree_picture("Go", "0", tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 0


def test_an_invalid_tree_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="'2 1' is not a tree of 'dogs bark': the heads have no root"):
        tree_picture("dogs bark", "2 1", tmp_path / "a.png")
    with pytest.raises(SeqloomError, match="cannot be written as"):
        tree_picture("Go", "0", tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())
