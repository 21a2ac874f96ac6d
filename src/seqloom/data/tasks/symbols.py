"""Tasks on digits: small enough to learn in a minute, and each one asks something else of a model."""

from __future__ import annotations

from random import Random

DIGITS = "0123456789"
LETTERS = "abcdefgh"  # what `recall` has to remember


def copy(random: Random) -> tuple[str, str]:
    """The digits and the same digits."""
    digits = _digits(random)
    return " ".join(digits), " ".join(digits)


def reverse(random: Random) -> tuple[str, str]:
    """The digits and the digits from the last to the first."""
    digits = _digits(random)
    return " ".join(digits), " ".join(reversed(digits))


def sort(random: Random) -> tuple[str, str]:
    """The digits and the digits in ascending order."""
    digits = _digits(random)
    return " ".join(digits), " ".join(sorted(digits))


def addition(random: Random) -> tuple[str, str]:
    """A sum of two numbers with up to four digits each, and what it comes to."""
    left, right = (random.randrange(10 ** random.randint(1, 4)) for _ in range(2))
    return f"{left}+{right}", str(left + right)


def recall(random: Random, distance: int) -> tuple[str, str]:
    """A letter that stands `distance` symbols before the end of the source, digits behind it; the letter."""
    letter = random.choice(LETTERS)
    return " ".join((letter, *random.choices(DIGITS, k=distance - 1))), letter


def recall_near_or_far(random: Random) -> tuple[str, str]:
    """The same at a distance of 2 to 50."""
    return recall(random, random.randint(2, 50))


def _digits(random: Random) -> list[str]:
    return random.choices(DIGITS, k=random.randint(2, 10))
