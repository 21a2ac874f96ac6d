from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.inspect import surprisal
from seqloom.inspect.surprisal import surprisal_picture


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that would be written."""
    drawn: list[Any] = []
    monkeypatch.setattr(surprisal, "save_figure", lambda figure, path, **_: drawn.append(figure))
    return drawn


def test_a_bar_per_token_is_as_high_as_its_surprisal_in_bits(figures: list[Any]) -> None:
    texts = [(["▁a", "b", "▁"], [-0.6931472, -1.3862944, -2.0794415, 0.0]), (["▁c"], [-0.6931472])]
    surprisal_picture(texts, Path("a.png"), title="two texts")
    first, second = figures[0].axes
    assert [bar.get_height() for bar in first.patches] == pytest.approx([1, 2, 3, 0], abs=1e-6)
    assert [label.get_text() for label in first.get_xticklabels()] == ["a", "b", "▁", "⏎"]
    assert [bar.get_height() for bar in second.patches] == pytest.approx([1])
    assert [label.get_text() for label in second.get_xticklabels()] == ["c"]  # no end is scored
    assert first.get_ylim() == second.get_ylim()  # so that they can be compared


def test_nothing_can_be_drawn(figures: list[Any]) -> None:
    surprisal_picture([], Path("a.png"))
    surprisal_picture([([], [])], Path("a.png"))
    assert len(figures) == 2


def test_the_suffix_is_checked_first() -> None:
    with pytest.raises(SeqloomError, match=r"cannot be written as \.txt"):
        surprisal_picture([], Path("a.txt"))
