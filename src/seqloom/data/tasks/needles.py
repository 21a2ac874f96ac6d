"""Needles in a haystack: a few marked symbols at any place among very many others."""

from __future__ import annotations

import math
from random import Random

LETTERS = "abcd"
NUMBERS = "1234"
SHORTEST, LONGEST = 1000, 1100


def draw(random: Random, shortest: int = SHORTEST, longest: int = LONGEST) -> tuple[str, str]:
    """Letters, and among them one needle for each number such as `2c`; the needles' letters by number.

    Short sources are as likely as long ones: the logarithm of the length is drawn evenly.
    """
    length = round(math.exp(random.uniform(math.log(shortest), math.log(longest))))
    words, answer = random.choices(LETTERS, k=length), random.choices(LETTERS, k=len(NUMBERS))
    for place, number, letter in zip(random.sample(range(length), len(NUMBERS)), NUMBERS, answer, strict=True):
        words[place] = f"{number}{letter}"
    return " ".join(words), " ".join(answer)
