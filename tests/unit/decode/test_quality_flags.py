"""Flags of suspicious outputs."""

from __future__ import annotations

import pytest

from seqloom.decode.quality_flags import flags, is_copy, is_short, loops
from seqloom.types import Hypothesis


def output(text: str, *, finished: bool = True) -> Hypothesis:
    return Hypothesis(text=text, score=0.0, finished=finished)


def test_an_ordinary_output_has_no_flag() -> None:
    assert flags("ein Haus am See", output("a house by the lake")) == []
    assert flags("", output("")) == []


def test_each_reason() -> None:
    assert flags("ein Haus", output("")) == ["empty"]
    assert flags("ein Haus", output("a house and", finished=False)) == ["cut"]
    assert flags("ein Haus", output("no no no no")) == ["loop"]
    assert flags("ein Haus am See", output("ein Haus am See")) == ["copy"]
    assert flags("a b c d", output("so it so it so it so it", finished=False)) == ["cut", "loop"]


@pytest.mark.parametrize("period", [1, 2, 3, 8])
def test_a_loop_needs_four_repetitions(period: int) -> None:
    stretch = [f"w{i}" for i in range(period)]
    assert loops(["start", *stretch * 4, "end"])
    assert not loops(["start", *stretch * 3, "end"])
    assert not loops(["start", *stretch * 3, *stretch[:-1], "end"])


def test_recurring_words_are_not_a_loop() -> None:
    names = ["dog", "cat", "cow", "hen", "pig"]
    assert not loops([word for name in names for word in ("and", "the", name)])


def test_names_and_numbers_may_be_copied() -> None:
    assert not is_copy("Angela Merkel", "Angela Merkel")
    assert is_copy("a man  rides", "a man rides")


DOCUMENT = "Where is Tom? " * 3000


def test_one_sentence_for_a_document_is_short() -> None:
    assert flags(DOCUMENT, output("Wo ist Tom?"), length_ratio=1.1) == ["short"]
    assert flags(DOCUMENT, output("Wo ist Tom?")) == []  # the run does not record the ratio
    assert flags(DOCUMENT, output(""), length_ratio=1.1) == ["empty"]
    assert flags(DOCUMENT, output(DOCUMENT.replace("Where is", "Wo ist")), length_ratio=1.1)[:1] != ["short"]


def test_short_begins_below_a_twentieth_of_the_expected_length() -> None:
    assert is_short("x" * 1000, "y" * 49, length_ratio=1.0)
    assert not is_short("x" * 1000, "y" * 50, length_ratio=1.0)
    assert is_short("x" * 1000, "y" * 99, length_ratio=2.0)


def test_short_sources_labels_and_summaries_are_never_short() -> None:
    assert not is_short("x" * 99, "y", length_ratio=1.0)
    assert not is_short(DOCUMENT, "sport", length_ratio=0.02)
