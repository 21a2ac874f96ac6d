"""Digit tasks, which a model can learn in a minute; each tests another ability."""

from __future__ import annotations

from random import Random

DIGITS = "0123456789"
LETTERS = "abcdefgh"  # symbols to remember in `recall`


def copy(random: Random) -> tuple[str, str]:
    """Draw digits; the target is the same digits."""
    digits = _digits(random)
    return " ".join(digits), " ".join(digits)


def reverse(random: Random) -> tuple[str, str]:
    """Draw digits; the target is the digits in reverse order."""
    digits = _digits(random)
    return " ".join(digits), " ".join(reversed(digits))


def sort(random: Random) -> tuple[str, str]:
    """Draw digits; the target is the digits in ascending order."""
    digits = _digits(random)
    return " ".join(digits), " ".join(sorted(digits))


def addition(random: Random) -> tuple[str, str]:
    """Draw two numbers with up to four digits; the target is their sum."""
    left, right = (random.randrange(10 ** random.randint(1, 4)) for _ in range(2))
    return f"{left}+{right}", str(left + right)


def recall(random: Random, distance: int) -> tuple[str, str]:
    """Draw a letter `distance` symbols before the end, followed by digits; the target is the letter."""
    letter = random.choice(LETTERS)
    return " ".join((letter, *random.choices(DIGITS, k=distance - 1))), letter


def recall_near_or_far(random: Random) -> tuple[str, str]:
    """Draw a `recall` pair with a distance of 2 to 50."""
    return recall(random, random.randint(2, 50))


def _digits(random: Random) -> list[str]:
    return random.choices(DIGITS, k=random.randint(2, 10))
