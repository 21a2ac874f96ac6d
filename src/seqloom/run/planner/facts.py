"""Measurements of a corpus that decide which options suit it."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seqloom.types import Example

_SAMPLE = 20_000  # pairs that are measured; all pairs are counted
_TAG = re.compile(r"<[^\s<>]+>")
_WORDS_OF_A_WORD = 1.5  # words per line below which lines are single words, with a few exceptions
_CLOSED_VOCABULARY = 2_000  # distinct words of a closed vocabulary at most
_CLOSED_UNSEEN = 0.002  # share of words of a closed vocabulary that a second sample does not know


@dataclass(frozen=True)
class SideFacts:
    """The sources or the targets of a corpus, without leading tags."""

    characters: float  # mean per line
    words: float  # mean per line
    alphabet: frozenset[str]  # distinct characters
    vocabulary: int  # distinct words of the sample
    unseen: float  # share of the words in one half of the sample that the other half does not have

    @property
    def is_single_word(self) -> bool:
        """Whether lines are single words, such as names, lemmas or dictionary entries."""
        return self.words < _WORDS_OF_A_WORD

    @property
    def is_closed(self) -> bool:
        """Whether lines are sequences of symbols from a small set, such as phonemes or actions."""
        return (
            not self.is_single_word and self.vocabulary <= _CLOSED_VOCABULARY and self.unseen <= _CLOSED_UNSEEN
        )


@dataclass(frozen=True)
class DataFacts:
    """A corpus of pairs."""

    pairs: int
    source: SideFacts
    target: SideFacts
    tags: int  # distinct tags at the beginning of sources, e.g. <2de>
    tags_per_line: float
    shared_alphabet: float  # share of the target's characters that the sources have
    copied: float  # share of the target's words that are in their source
    code: float  # share of targets with indentation or repeated spaces
    frames: bool = False  # sources are files of features

    def as_dict(self) -> dict[str, object]:
        """Return the measurements as plain values."""
        return {
            "pairs": self.pairs,
            "source": _side_dict(self.source),
            "target": _side_dict(self.target),
            "tags": self.tags,
            "shared_alphabet": round(self.shared_alphabet, 4),
            "copied": round(self.copied, 4),
            "code": round(self.code, 4),
            "frames": self.frames,
        }


def _side_dict(side: SideFacts) -> dict[str, object]:
    return {
        "characters": round(side.characters, 2),
        "words": round(side.words, 2),
        "alphabet": len(side.alphabet),
        "vocabulary": side.vocabulary,
        "unseen": round(side.unseen, 5),
    }


def measure(examples: Iterable[Example], *, frames: bool = False) -> DataFacts:
    """Count all pairs and measure a random sample of them in one pass; the sample is the same each time."""
    pairs, sample = _reservoir(examples)
    sources = [_without_tags("" if frames else pair.source) for pair in sample]
    targets = [pair.target or "" for pair in sample]
    tags = [_TAG.findall(_leading_tags(pair.source)) for pair in sample if not frames]
    source, target = _side(sources), _side(targets)
    return DataFacts(
        pairs=pairs,
        source=source,
        target=target,
        tags=len({tag for line in tags for tag in line}),
        tags_per_line=sum(map(len, tags)) / max(len(tags), 1),
        shared_alphabet=len(target.alphabet & source.alphabet) / max(len(target.alphabet), 1),
        copied=_copied(sources, targets),
        code=sum(map(_has_layout, targets)) / max(len(targets), 1),
        frames=frames,
    )


def _reservoir(examples: Iterable[Example]) -> tuple[int, list[Example]]:
    """Return the number of examples and a uniform sample: files may be sorted by length or topic."""
    draw, sample, count = random.Random(0), list[Example](), 0
    for count, example in enumerate(examples, 1):
        if len(sample) < _SAMPLE:
            sample.append(example)
        elif (place := draw.randrange(count)) < _SAMPLE:
            sample[place] = example
    draw.shuffle(sample)
    return count, sample


def _side(lines: Sequence[str]) -> SideFacts:
    words = [line.split() for line in lines]
    tokens = sum(map(len, words))
    half = len(words) // 2
    known, other = (Counter(word for line in part for word in line) for part in (words[:half], words[half:]))
    unseen = sum(number for word, number in other.items() if word not in known)
    return SideFacts(
        characters=sum(map(len, lines)) / max(len(lines), 1),
        words=tokens / max(len(lines), 1),
        alphabet=frozenset(char for line in lines for char in line if not char.isspace()),
        vocabulary=len(known | other),
        unseen=unseen / max(sum(other.values()), 1),
    )


def _leading_tags(line: str) -> str:
    found = re.match(r"(?:<[^\s<>]+>\s*)*", line)
    return found[0] if found else ""


def _without_tags(line: str) -> str:
    return line[len(_leading_tags(line)) :]


def _copied(sources: Sequence[str], targets: Sequence[str]) -> float:
    total = shared = 0
    for source, target in zip(sources, targets, strict=True):
        known, words = set(source.split()), target.split()
        total += len(words)
        shared += sum(word in known for word in words)
    return shared / max(total, 1)


def _has_layout(line: str) -> bool:
    """Return whether spaces of a line carry meaning: indentation, or several in a row."""
    return line[:1].isspace() or "  " in line.rstrip() or "\t" in line
