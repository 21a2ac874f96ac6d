from __future__ import annotations

import pytest

from seqloom.inspect.labels import END
from seqloom.inspect.surprisal import Surprisals

TEXTS = [(["▁a", "b", "▁"], [-0.6931472, -1.3862944, -2.0794415, 0.0]), (["▁c"], [-0.6931472])]


def test_a_bar_per_token_is_as_high_as_its_surprisal_in_bits() -> None:
    first, second = Surprisals(TEXTS).plot(title="two texts").axes
    assert [bar.get_height() for bar in first.patches] == pytest.approx([1, 2, 3, 0], abs=1e-6)
    assert [label.get_text() for label in first.get_xticklabels()] == ["·a", "b", "␣", "(end)"]
    assert [bar.get_height() for bar in second.patches] == pytest.approx([1])
    assert [label.get_text() for label in second.get_xticklabels()] == ["c"]  # the end is not scored
    assert first.get_ylim() == second.get_ylim()  # so that they can be compared


def test_plain_data_has_bits() -> None:
    first, second = Surprisals(TEXTS).to_dict()["texts"]
    assert first["tokens"] == ["▁a", "b", "▁", END]
    assert second["bits"] == pytest.approx([1])


def test_long_texts_are_grouped_by_word_and_their_bits_added() -> None:
    tokens = ["▁play", "ing"] * 20
    (panel,) = Surprisals([(tokens, [-0.6931472] * 40)]).plot().axes
    assert [bar.get_height() for bar in panel.patches] == pytest.approx([2] * 20)
    assert panel.get_xticklabels()[0].get_text() == "playing"
