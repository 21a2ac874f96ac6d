"""The phrase table: for every source phrase its translations, with probabilities, orientations and links."""

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

LONGEST = 7  # words of a phrase: the links of 7 x 7 words fit into 64 bits


@dataclass(frozen=True)
class PhraseTable:
    """The pairs of a source phrase s are the rows from first[s] to first[s + 1], the likeliest first."""

    source: Trie
    target: Trie
    first: NDArray[np.int64]
    translation: NDArray[np.int64]  # (N,): the number of the target phrase
    scores: NDArray[np.float32]  # (N, 4): log φ(x|y), lex(x|y), φ(y|x), lex(y|x)
    reordering: NDArray[
        np.float32
    ]  # (N, 6): log P of monotone, swap, other to the phrase before; the same behind
    links: NDArray[np.int64]  # (N,): bit LONGEST · j + i is set when word j of the target is linked to word i

    def __len__(self) -> int:
        return len(self.translation)

    def linked(self, row: int, source: int, target: int) -> list[list[int]]:
        """For every word of a pair's target phrase the source words it is linked to; the lengths are given."""
        bits = int(self.links[row])
        return [[i for i in range(source) if bits >> (LONGEST * j + i) & 1] for j in range(target)]

    def to_tensors(self) -> dict[str, Tensor]:
        """The table as plain tensors."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        for side, trie in (("source", self.source), ("target", self.target)):
            arrays[f"{side}.vocabulary"] = np.array([trie.vocabulary])
            arrays |= {f"{side}.{depth}": level for depth, level in enumerate(trie.levels)}
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> PhraseTable:
        """The table that `to_tensors` gave; tensors that contradict each other are a ValueError."""
        given = StateReader({name: tensor.cpu() for name, tensor in tensors.items()}, side=1)
        source, target = (_trie(given, side) for side in ("source", "target"))
        translation = given.integers("translation", "pairs", below=len(target))
        first = given.integers("first", "sources and the end")
        check_bounds(first, "first", parts=len(source), last=len(translation))
        given.sizes |= {"probabilities": 4, "orientations": 6}
        return cls(
            source,
            target,
            first.numpy(),
            translation.numpy(),
            given.numbers("scores", "pairs", "probabilities", dtype=torch.float32).numpy(),
            given.numbers("reordering", "pairs", "orientations", dtype=torch.float32).numpy(),
            given.integers("links", "pairs").numpy(),
        )


_ARRAYS = ("first", "translation", "scores", "reordering", "links")


def _trie(given: StateReader, side: str) -> Trie:
    """The phrases of one side; those of k words go on from those of k - 1."""
    vocabulary = int(given.integers(f"{side}.vocabulary", "side", minimum=1).sum())
    depth = sum(name.startswith(f"{side}.") for name in given.state) - 1
    trie, shorter = Trie([], vocabulary), range(1)
    for k in range(depth):
        least, below = shorter.start * vocabulary, shorter.stop * vocabulary
        keys = given.integers(f"{side}.{k}", f"{side} phrases of {k + 1}", minimum=least, below=below)
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
    """The table of an aligned corpus.

    `smooth` discounts the phrase probabilities; `strength` draws orientations to the average; of each source
    phrase the `limit` likeliest translations stay.
    """
    assert longest <= LONGEST
    lengths = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    found = occurrences(links, lengths, longest)
    corpus = _Corpus(sources, targets, links)
    found = corpus.known(found)
    begins = corpus.places(found)
    tries, numbers = [], []
    for side, words in enumerate((corpus.words.source, corpus.words.target)):
        span = (found.source, found.target)[side]
        trie, own = _numbered(words, begins[side], span[:, 1] - span[:, 0], vocabularies[side])
        tries.append(trie)
        numbers.append(own)
    pairs, which = np.unique(numbers[0] * len(tries[1]) + numbers[1], return_inverse=True)
    source, target = np.divmod(pairs, max(len(tries[1]), 1))
    counts = np.bincount(which, minlength=len(pairs))
    lexical = corpus.lexical(found)
    # A pair that was found with several alignments takes the one of the highest weight (Koehn et al. 2003).
    order = np.lexsort((lexical.sum(axis=1), which))
    chosen = order[np.searchsorted(which[order], np.arange(len(pairs)), side="right") - 1]
    scores = np.stack(
        (
            log_phrase_probabilities(target, source, counts, smooth=smooth),
            lexical[chosen, 0],
            log_phrase_probabilities(source, target, counts, smooth=smooth),
            lexical[chosen, 1],
        ),
        axis=1,
    )
    sides = [log_orientations(which, side.astype(np.int64), strength) for side in (found.before, found.after)]
    rows = _best_rows(source, scores[:, 2], limit)
    return PhraseTable(
        source=tries[0],
        target=tries[1],
        first=np.searchsorted(source[rows], np.arange(len(tries[0]) + 1)),
        translation=target[rows],
        scores=scores[rows].astype(np.float32),
        reordering=np.concatenate(sides, axis=1)[rows].astype(np.float32),
        links=corpus.link_bits(found, chosen[rows]),
    )


def _numbered(
    words: NDArray[np.int64], begin: NDArray[np.int64], length: NDArray[np.int64], vocabulary: int
) -> tuple[Trie, NDArray[np.int64]]:
    """The phrases that begin at these places, and the number of each."""
    wanted = np.zeros(len(words), np.int64)
    np.maximum.at(wanted, begin, length)
    trie = Trie.of(words, wanted, vocabulary)
    return trie, trie.find(words)[length - 1, begin]


def _best_rows(source: NDArray[np.int64], score: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """The rows by source phrase, of each the best first and at most `limit`."""
    order = np.lexsort((-score, source))
    ordered = source[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[rank < limit]


class _Corpus:
    """All sentences in a row, and their links as places in it."""

    def __init__(self, sources: Rows, targets: Rows, links: Sequence[Links]) -> None:
        self.starts = [_starts(sources), _starts(targets)]
        counts = [len(own) for own in links]
        flat = np.concatenate([np.zeros((0, 2), np.int64), *links]).astype(np.int64)
        shift = np.stack([np.repeat(starts[:-1], counts) for starts in self.starts], axis=1)
        self.words = LinkedWords(_joined(sources), _joined(targets), flat + shift)

    def places(self, found: Occurrences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each phrase begins in the row of the source, and of the target."""
        source, target = self.starts
        return source[found.sentence] + found.source[:, 0], target[found.sentence] + found.target[:, 0]

    def known(self, found: Occurrences) -> Occurrences:
        """Those without an unknown word: nobody can say which word it was."""
        kept = np.ones(len(found.sentence), bool)
        sides = ((self.words.source, found.source), (self.words.target, found.target))
        for (words, span), begin in zip(sides, self.places(found), strict=True):
            kept &= _sums((words == UNK).astype(float), begin, span) == 0
        return Occurrences(*(column[kept] for column in found))

    def lexical(self, found: Occurrences) -> NDArray[np.float64]:
        """(N, 2): log lex(x|y) and log lex(y|x) of every occurrence."""
        source, target = self.places(found)
        inverse = _sums(log_factors(self.words.turned()), source, found.source)
        return np.stack((inverse, _sums(log_factors(self.words), target, found.target)), axis=1)

    def link_bits(self, found: Occurrences, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The links inside these occurrences as bits, see PhraseTable.links."""
        order = np.argsort(self.words.links[:, 1], kind="stable")
        source, target = self.words.links[order].T
        begins = [begin[rows] for begin in self.places(found)]
        length = (found.target[:, 1] - found.target[:, 0])[rows]
        bits = np.zeros(len(rows), np.int64)
        for j in range(LONGEST):
            at, stop = (np.searchsorted(target, begins[1] + j, side=side) for side in ("left", "right"))
            stop[j >= length] = 0
            while (more := at < stop).any():
                bits[more] |= np.int64(1) << (LONGEST * j + source[at[more]] - begins[0][more])
                at += 1
        return bits


def _sums(
    values: NDArray[np.float64], begin: NDArray[np.int64], span: NDArray[np.int32]
) -> NDArray[np.float64]:
    """The sum of the values in every span that begins there."""
    running = np.concatenate(([0.0], np.cumsum(values)))
    return np.asarray(running[begin + span[:, 1] - span[:, 0]] - running[begin])


def _starts(rows: Rows) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)


def _joined(rows: Rows) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int64)
