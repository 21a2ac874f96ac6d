"""Needle-in-a-haystack task: a few marked symbols at random positions among many others."""

from __future__ import annotations

import math
from random import Random

LETTERS = "abcd"
NUMBERS = "1234"
SHORTEST, LONGEST = 1000, 1100


def draw(random: Random, shortest: int = SHORTEST, longest: int = LONGEST) -> tuple[str, str]:
    """Draw letters with one needle per number, such as `2c`, and the letters of the needles by number.

    The length is log-uniform, so short sources are as likely as long ones.
    """
    length = round(math.exp(random.uniform(math.log(shortest), math.log(longest))))
    words, letters = random.choices(LETTERS, k=length), random.choices(LETTERS, k=len(NUMBERS))
    positions = random.sample(range(length), len(NUMBERS))
    for position, number, letter in zip(positions, NUMBERS, letters, strict=True):
        words[position] = f"{number}{letter}"
    return " ".join(words), " ".join(letters)
