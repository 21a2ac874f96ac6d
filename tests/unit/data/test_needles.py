"""The task needles: the target follows from the source, whose needles can stand anywhere in it."""

from __future__ import annotations

from random import Random

import pytest

from seqloom.data.tasks import needles


def found(source: str) -> dict[str, str]:
    """The letter of each number."""
    return {word[0]: word[1] for word in source.split(" ") if len(word) == 2}


def test_the_target_is_the_letters_in_the_order_of_their_numbers() -> None:
    random = Random(1)
    for _ in range(50):
        source, target = needles.draw(random)
        letters = found(source)
        assert target.split(" ") == [letters[number] for number in needles.NUMBERS]


@pytest.mark.parametrize("shortest, longest", [(1000, 1100), (32, 1100), (4, 4)])
def test_sources_are_as_long_as_asked_for(shortest: int, longest: int) -> None:
    random = Random(1)
    lengths = [len(needles.draw(random, shortest, longest)[0].split(" ")) for _ in range(400)]
    assert shortest <= min(lengths) and max(lengths) <= longest
    assert min(lengths) < shortest * 1.1 and max(lengths) > longest * 0.9


def test_a_source_is_long_unless_asked_otherwise() -> None:
    random = Random(1)
    assert all(needles.draw(random)[0].count(" ") >= 999 for _ in range(100))


def test_needles_stand_anywhere() -> None:
    random = Random(1)
    drawn = [needles.draw(random)[0].split(" ") for _ in range(400)]
    places = {at for words in drawn for at, word in enumerate(words) if len(word) == 2}
    assert all(places & set(range(low, low + 50)) for low in range(0, 1050, 50))
