"""Measurements of a corpus, against counts by hand."""

from __future__ import annotations

import random

import pytest

from seqloom.run.planner.facts import measure
from seqloom.types import Example


def _examples(*pairs: tuple[str, str]) -> list[Example]:
    return [Example(source, target) for source, target in pairs]


def test_means_are_per_line_and_without_tags() -> None:
    facts = measure(_examples(("<V> <PST> go", "went"), ("<N> house", "houses are")))
    assert facts.pairs == 2
    assert (facts.source.words, facts.source.characters) == (1, 3.5)
    assert (facts.target.words, facts.target.characters) == (1.5, 7)
    assert (facts.tags, facts.tags_per_line) == (3, 1.5)


def test_copied_words_and_shared_characters() -> None:
    facts = measure(_examples(("ab cd", "ab x"), ("e", "e")))
    assert facts.copied == pytest.approx(2 / 3)
    assert facts.shared_alphabet == pytest.approx(3 / 4)  # a, b and e of a, b, e and x


@pytest.mark.parametrize(("target", "has_layout"), [("    return x", 1), ("a  b", 1), ("a b ", 0), ("a b", 0)])
def test_indentation_and_repeated_spaces_are_code(target: str, has_layout: int) -> None:
    assert measure(_examples(("x", target))).code == has_layout


def test_symbols_are_a_closed_vocabulary_and_sentences_are_not() -> None:
    draw = random.Random(1)
    actions = [" ".join(draw.choices("ABCDEFGH", k=6)) for _ in range(500)]
    texts = [" ".join(str(draw.randrange(10_000)) for _ in range(6)) for _ in range(500)]
    facts = measure(Example(text, action) for text, action in zip(texts, actions, strict=True))
    assert facts.target.is_closed
    assert not facts.source.is_closed


def test_single_words_are_not_symbols() -> None:
    facts = measure(_examples(("cat", "K AE T"), ("dog", "D AO G"), ("act", "AE K T"), ("god", "G AO D")))
    assert facts.source.is_single_word
    assert not facts.source.is_closed


def test_a_sorted_file_is_sampled_from_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.run.planner.facts._SAMPLE", 100)
    facts = measure(Example("x " * length, "y") for length in range(1, 2001))
    assert facts.pairs == 2000
    assert 800 < facts.source.words < 1200  # the mean of all lines is 1000.5


def test_no_pairs() -> None:
    facts = measure([])
    assert facts.pairs == 0
    assert facts.copied == facts.source.words == 0
