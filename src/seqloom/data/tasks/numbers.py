"""Numbers in English and German words; in German, units come before tens."""

from __future__ import annotations

from random import Random

from seqloom.errors import SeqloomError


def draw(random: Random) -> tuple[str, str]:
    """Draw a number below a million, with uniform digit count, and return it in both languages."""
    try:
        from num2words import num2words
    except ImportError as error:
        raise SeqloomError(
            "The task numbers requires num2words, which is not installed.", "pip install 'seqloom[demo]'"
        ) from error
    number = random.randrange(10 ** random.randint(1, 6))
    return str(num2words(number, lang="en")), str(num2words(number, lang="de"))
