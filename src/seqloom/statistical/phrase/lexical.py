"""How well the words of phrases translate each other.

w(y|x) = links of x and y / links of x, where a word without a link counts as linked to the empty word. The
lexical weight of a phrase pair (Koehn et al. 2003, eq. 4) is a product over its words, each of which takes the
mean of w over its links:

    lex(y|x) = Π_j 1/|{i: (i,j) linked}| Σ_{(i,j) linked} w(y_j|x_i)

All links of a word of an agreeing phrase pair are inside it, so the factor of a word is the same in every
phrase around it, and the weight of a phrase is a difference of two running sums of logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LinkedWords(NamedTuple):
    """The words of one side of a corpus in a row and the links of the corpus, as places in both rows."""

    source: Ints
    target: Ints
    links: Ints  # (L, 2)

    def turned(self) -> LinkedWords:
        """Source and target the other way round."""
        return LinkedWords(self.target, self.source, self.links[:, ::-1])


def log_factors(corpus: LinkedWords) -> Floats:
    """Per word of the target, the logarithm of its mean w(y|x) over its links, or of w(y|no word)."""
    probability = _word_probabilities(corpus)
    linked = len(corpus.links)
    total = np.zeros(len(corpus.target))
    np.add.at(total, corpus.links[:, 1], probability[:linked])
    count = np.bincount(corpus.links[:, 1], minlength=len(corpus.target))
    alone = np.flatnonzero(count == 0)
    total[alone] = probability[linked:]
    return np.log(total / np.maximum(count, 1))


def _word_probabilities(corpus: LinkedWords) -> Floats:
    """w(y|x) of every link, then w(y|no word) of every target word without one."""
    alone = np.setdiff1d(np.arange(len(corpus.target)), corpus.links[:, 1])
    size = int(corpus.target.max(initial=0)) + 1
    given = np.concatenate(
        (corpus.source[corpus.links[:, 0]] + 1, np.zeros(len(alone), np.int64))
    )  # 0: no word
    words = np.concatenate((corpus.target[corpus.links[:, 1]], corpus.target[alone]))
    _, which, counts = np.unique(given * size + words, return_inverse=True, return_counts=True)
    return np.asarray(counts[which] / np.bincount(given)[given])
