"""Lexical weights of phrase pairs.

w(y|x) = links of x and y / links of x, where an unlinked word counts as linked to the empty word. The lexical
weight of a phrase pair (Koehn et al. 2003, eq. 4) is the product over its words of the mean of w over the links
of each word:

    lex(y|x) = Π_j 1/|{i: (i,j) linked}| Σ_{(i,j) linked} w(y_j|x_i)

All links of a word are inside every consistent phrase pair that contains it, so its factor is the same in all
of them, and the weight of a phrase is a difference of two cumulative sums of logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LinkedWords(NamedTuple):
    """The concatenated words of both sides of a corpus, and its links as indices into them."""

    source: Ints
    target: Ints
    links: Ints  # (L, 2)

    def swapped(self) -> LinkedWords:
        """Return the corpus with source and target exchanged."""
        return LinkedWords(self.target, self.source, self.links[:, ::-1])


def log_factors(corpus: LinkedWords) -> Floats:
    """Return the log of the mean w(y|x) over its links, or of w(y|no word), for each target word."""
    probability = _word_probabilities(corpus)
    linked = len(corpus.links)
    total = np.zeros(len(corpus.target))
    np.add.at(total, corpus.links[:, 1], probability[:linked])
    count = np.bincount(corpus.links[:, 1], minlength=len(corpus.target))
    unlinked = np.flatnonzero(count == 0)
    total[unlinked] = probability[linked:]
    return np.log(total / np.maximum(count, 1))


def _word_probabilities(corpus: LinkedWords) -> Floats:
    """Return w(y|x) of every link, then w(y|no word) of every unlinked target word."""
    unlinked = np.setdiff1d(np.arange(len(corpus.target)), corpus.links[:, 1])
    size = int(corpus.target.max(initial=0)) + 1
    given = np.concatenate(
        (corpus.source[corpus.links[:, 0]] + 1, np.zeros(len(unlinked), np.int64))
    )  # 0: no word
    words = np.concatenate((corpus.target[corpus.links[:, 1]], corpus.target[unlinked]))
    _, inverse, counts = np.unique(given * size + words, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] / np.bincount(given)[given])
