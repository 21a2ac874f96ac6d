"""The task needles: targets follow from sources, and needles are at random positions."""

from __future__ import annotations

from random import Random

import pytest

from seqloom.data.tasks import needles


def found(source: str) -> dict[str, str]:
    """Return the letter of each number."""
    return {word[0]: word[1] for word in source.split(" ") if len(word) == 2}


def test_the_target_is_the_letters_in_the_order_of_their_numbers() -> None:
    random = Random(1)
    for _ in range(50):
        source, target = needles.draw(random)
        letters = found(source)
        assert target.split(" ") == [letters[number] for number in needles.NUMBERS]


@pytest.mark.parametrize("shortest, longest", [(1000, 1100), (32, 1100), (4, 4)])
def test_source_lengths_are_within_the_given_range(shortest: int, longest: int) -> None:
    random = Random(1)
    lengths = [len(needles.draw(random, shortest, longest)[0].split(" ")) for _ in range(400)]
    assert shortest <= min(lengths) and max(lengths) <= longest
    assert min(lengths) < shortest * 1.1 and max(lengths) > longest * 0.9


def test_sources_are_long_by_default() -> None:
    random = Random(1)
    assert all(needles.draw(random)[0].count(" ") >= 999 for _ in range(100))


def test_needles_occur_at_any_position() -> None:
    random = Random(1)
    drawn = [needles.draw(random)[0].split(" ") for _ in range(400)]
    places = {at for words in drawn for at, word in enumerate(words) if len(word) == 2}
    assert all(places & set(range(low, low + 50)) for low in range(0, 1050, 50))
