"""The phrase table: the translations of every source phrase, with probabilities, orientations and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.statistical.phrase.extract import Links, Occurrences, occurrences
from seqloom.statistical.phrase.lexical import LinkedWords, log_factors
from seqloom.statistical.phrase.probabilities import log_orientations, log_phrase_probabilities
from seqloom.statistical.phrase.trie import Trie
from seqloom.statistical.state_reader import StateReader, check_bounds
from seqloom.types import UNK

Rows = Sequence[NDArray[Any]]

LONGEST = 7  # maximum phrase length in words: the links of 7 x 7 words fit into 64 bits


@dataclass(frozen=True)
class PhraseTable:
    """The pairs of source phrase s are rows first[s] to first[s + 1] - 1, the most probable first."""

    source: Trie
    target: Trie
    first: NDArray[np.int64]
    translation: NDArray[np.int64]  # (N,): number of the target phrase
    scores: NDArray[np.float32]  # (N, 4): log φ(x|y), lex(x|y), φ(y|x), lex(y|x)
    reordering: NDArray[
        np.float32
    ]  # (N, 6): log P of monotone, swap, other relative to the previous phrase; then of the next phrase
    links: NDArray[np.int64]  # (N,): bit LONGEST · j + i is set if target word j is linked to source word i

    def __len__(self) -> int:
        return len(self.translation)

    def linked(self, row: int, source: int, target: int) -> list[list[int]]:
        """Return the linked source words of every target word of a pair, reader the lengths of both phrases."""
        bits = int(self.links[row])
        return [[i for i in range(source) if bits >> (LONGEST * j + i) & 1] for j in range(target)]

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the table as tensors."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        for side, trie in (("source", self.source), ("target", self.target)):
            arrays[f"{side}.vocabulary"] = np.array([trie.vocabulary])
            arrays |= {f"{side}.{depth}": level for depth, level in enumerate(trie.levels)}
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> PhraseTable:
        """Restore the table from `to_tensors`; raise ValueError if tensors contradict each other."""
        reader = StateReader({name: tensor.cpu() for name, tensor in tensors.items()}, side=1)
        source, target = (_trie(reader, side) for side in ("source", "target"))
        translation = reader.integers("translation", "pairs", below=len(target))
        first = reader.integers("first", "sources + 1")
        check_bounds(first, "first", parts=len(source), last=len(translation))
        reader.sizes |= {"probabilities": 4, "orientations": 6}
        return cls(
            source,
            target,
            first.numpy(),
            translation.numpy(),
            reader.numbers("scores", "pairs", "probabilities", dtype=torch.float32).numpy(),
            reader.numbers("reordering", "pairs", "orientations", dtype=torch.float32).numpy(),
            reader.integers("links", "pairs").numpy(),
        )


_ARRAYS = ("first", "translation", "scores", "reordering", "links")


def _trie(reader: StateReader, side: str) -> Trie:
    """Restore the phrases of one side; those of k words extend those of k - 1."""
    vocabulary = int(reader.integers(f"{side}.vocabulary", "side", minimum=1).sum())
    depth = sum(name.startswith(f"{side}.") for name in reader.state) - 1
    trie, shorter = Trie([], vocabulary), range(1)
    for k in range(depth):
        minimum, below = shorter.start * vocabulary, shorter.stop * vocabulary
        keys = reader.integers(f"{side}.{k}", f"{side} phrases of {k + 1}", minimum=minimum, below=below)
        if not len(keys) or bool((keys.diff() <= 0).any()):
            raise ValueError(f"{side}.{k} is not sorted")
        shorter = range(len(trie), len(trie) + len(keys))
        trie = Trie([*trie.levels, keys.numpy()], vocabulary)
    return trie


def build_table(
    sources: Rows,
    targets: Rows,
    links: Sequence[Links],
    *,
    vocabularies: tuple[int, int],
    longest: int,
    smooth: bool,
    strength: float,
    limit: int,
) -> PhraseTable:
    """Build the table of an aligned corpus.

    `smooth` discounts the phrase probabilities; `strength` is the number of pseudo-counts of average
    orientations; `limit` is the maximum number of translations kept per source phrase.
    """
    assert longest <= LONGEST
    lengths = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    pairs = occurrences(links, lengths, longest)
    corpus = _Corpus(sources, targets, links)
    pairs = corpus.without_unknown(pairs)
    starts = corpus.phrase_starts(pairs)
    tries, numbers = [], []
    for side, words in enumerate((corpus.words.source, corpus.words.target)):
        span = (pairs.source, pairs.target)[side]
        trie, own = _numbered(words, starts[side], span[:, 1] - span[:, 0], vocabularies[side])
        tries.append(trie)
        numbers.append(own)
    distinct, inverse = np.unique(numbers[0] * len(tries[1]) + numbers[1], return_inverse=True)
    source, target = np.divmod(distinct, max(len(tries[1]), 1))
    counts = np.bincount(inverse, minlength=len(distinct))
    lexical = corpus.lexical(pairs)
    # Of several alignments of a pair, the one with the highest lexical weight is used (Koehn et al. 2003).
    order = np.lexsort((lexical.sum(axis=1), inverse))
    best = order[np.searchsorted(inverse[order], np.arange(len(distinct)), side="right") - 1]
    scores = np.stack(
        (
            log_phrase_probabilities(target, source, counts, smooth=smooth),
            lexical[best, 0],
            log_phrase_probabilities(source, target, counts, smooth=smooth),
            lexical[best, 1],
        ),
        axis=1,
    )
    sides = [log_orientations(inverse, side.astype(np.int64), strength) for side in (pairs.before, pairs.after)]
    rows = _best_rows(source, scores[:, 2], limit)
    return PhraseTable(
        source=tries[0],
        target=tries[1],
        first=np.searchsorted(source[rows], np.arange(len(tries[0]) + 1)),
        translation=target[rows],
        scores=scores[rows].astype(np.float32),
        reordering=np.concatenate(sides, axis=1)[rows].astype(np.float32),
        links=corpus.link_bits(pairs, best[rows]),
    )


def _numbered(
    words: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64], vocabulary: int
) -> tuple[Trie, NDArray[np.int64]]:
    """Return a trie of the phrases that start at these positions, and the number of each."""
    max_lengths = np.zeros(len(words), np.int64)
    np.maximum.at(max_lengths, start, length)
    trie = Trie.of(words, max_lengths, vocabulary)
    return trie, trie.find(words)[length - 1, start]


def _best_rows(source: NDArray[np.int64], score: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return the row indices sorted by source phrase, for each the `limit` best, best first."""
    order = np.lexsort((-score, source))
    ordered = source[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[rank < limit]


class _Corpus:
    """The concatenated sentences, and their links as indices into them."""

    def __init__(self, sources: Rows, targets: Rows, links: Sequence[Links]) -> None:
        self.starts = [_starts(sources), _starts(targets)]
        counts = [len(own) for own in links]
        flat = np.concatenate([np.zeros((0, 2), np.int64), *links]).astype(np.int64)
        shift = np.stack([np.repeat(starts[:-1], counts) for starts in self.starts], axis=1)
        self.words = LinkedWords(_concatenated(sources), _concatenated(targets), flat + shift)

    def phrase_starts(self, pairs: Occurrences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the index of the first word of each phrase in the concatenated source and target."""
        source, target = self.starts
        return source[pairs.sentence] + pairs.source[:, 0], target[pairs.sentence] + pairs.target[:, 0]

    def without_unknown(self, pairs: Occurrences) -> Occurrences:
        """Drop pairs with an unknown word, because the original word is lost."""
        kept = np.ones(len(pairs.sentence), bool)
        sides = ((self.words.source, pairs.source), (self.words.target, pairs.target))
        for (words, span), start in zip(sides, self.phrase_starts(pairs), strict=True):
            kept &= _span_sums((words == UNK).astype(float), start, span) == 0
        return Occurrences(*(column[kept] for column in pairs))

    def lexical(self, pairs: Occurrences) -> NDArray[np.float64]:
        """Return log lex(x|y) and log lex(y|x) of every occurrence, (N, 2)."""
        source, target = self.phrase_starts(pairs)
        inverse = _span_sums(log_factors(self.words.swapped()), source, pairs.source)
        return np.stack((inverse, _span_sums(log_factors(self.words), target, pairs.target)), axis=1)

    def link_bits(self, pairs: Occurrences, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the links inside these occurrences as bits; see PhraseTable.links."""
        order = np.argsort(self.words.links[:, 1], kind="stable")
        source, target = self.words.links[order].T
        starts = [start[rows] for start in self.phrase_starts(pairs)]
        length = (pairs.target[:, 1] - pairs.target[:, 0])[rows]
        bits = np.zeros(len(rows), np.int64)
        for j in range(LONGEST):
            at, stop = (np.searchsorted(target, starts[1] + j, side=side) for side in ("left", "right"))
            stop[j >= length] = 0
            while (more := at < stop).any():
                bits[more] |= np.int64(1) << (LONGEST * j + source[at[more]] - starts[0][more])
                at += 1
        return bits


def _span_sums(
    values: NDArray[np.float64], start: NDArray[np.int64], span: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return the sum of the values over every span."""
    cumulative = np.concatenate(([0.0], np.cumsum(values)))
    return np.asarray(cumulative[start + span[:, 1] - span[:, 0]] - cumulative[start])


def _starts(rows: Rows) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)


def _concatenated(rows: Rows) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int64)
