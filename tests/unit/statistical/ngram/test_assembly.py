"""Tests of tables built from unsorted and incomplete n-grams."""

from __future__ import annotations

import random

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.statistical.ngram.assembly import Entries, assemble
from seqloom.statistical.ngram.levels import spell
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.types import EOS

V = 9
DRAW = random.Random(0)
ROWS = [[DRAW.randrange(3, V) for _ in range(DRAW.randrange(9))] for _ in range(80)]
MODEL = Ngrams.estimate(ROWS, order=4, vocabulary=V)
CONTEXTS = [tuple(row[-k:]) for row in ROWS for k in range(1, 4)]


def listed(model: Ngrams, seed: int = 0) -> list[Entries]:
    """Return the n-grams of a model, shuffled within every order but the first."""
    orders = []
    for n, (level, rows) in enumerate(zip(model.levels, spell(model.levels), strict=True), 1):
        order = np.random.default_rng(seed).permutation(len(level)) if n > 1 else np.arange(len(level))
        backoffs = level.backoffs.astype(float) if len(level.backoffs) else np.zeros(len(level))
        orders.append(Entries(rows[order], level.log_probs[order].astype(float), backoffs[order], 10 * n))
    return orders


def without(entries: Entries, gone: np.ndarray) -> Entries:
    return Entries(entries.rows[~gone], entries.log_probs[~gone], entries.backoffs[~gone], entries.line)


def test_entry_order_does_not_matter() -> None:
    again = assemble(listed(MODEL), "x")
    for ours, theirs in zip(MODEL.levels, again, strict=True):
        for name in ours.names():
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_missing_suffix_is_added_without_effect() -> None:
    """SRILM may prune a trigram that is the suffix of a 4-gram; all probabilities stay the same."""
    orders = listed(MODEL)
    needed = {tuple(row[:3]) for row in orders[3].rows.tolist()}  # contexts are never missing
    ends = {tuple(row[1:]) for row in orders[3].rows.tolist()}
    gone = np.array([tuple(row) in ends - needed for row in orders[2].rows.tolist()])
    assert gone.any()
    cut = {tuple(row): i for i, row in enumerate(orders[2].rows[~gone].tolist())}
    model = Ngrams(assemble([*orders[:2], without(orders[2], gone), orders[3]], "x"))

    def plain(context: tuple[int, ...], word: int) -> float:
        """Compute the probability by the definition of backoff, from the file's entries only."""
        gram = (*context, word)
        if len(gram) == 3 and gram not in cut:
            backoff = (
                MODEL.levels[1].backoffs[MODEL._find(context)] if MODEL._find(context) is not None else 0.0
            )
            return float(backoff) + plain(context[1:], word)
        place = MODEL._find(gram)
        if place is not None:
            return float(MODEL.levels[len(gram) - 1].log_probs[place])
        known = context if len(context) != 3 or context in cut else ()
        at = MODEL._find(known) if known else None
        backoff = MODEL.levels[len(context) - 1].backoffs[at] if at is not None else 0.0
        return float(backoff) + plain(context[1:], word)

    for context in CONTEXTS:
        for word in range(EOS, V):  # most missing suffixes are at the end of a text
            assert model.log_prob(context, word)[0] == pytest.approx(plain(context, word), rel=1e-5)


def test_missing_context_and_duplicate_entry_name_the_line() -> None:
    orders = listed(MODEL)
    first = orders[3].rows[0].tolist()
    gone = np.array([row == first[:3] for row in orders[2].rows.tolist()])
    with pytest.raises(SeqloomError, match="x, line 40: the file lacks this n-gram without its last word"):
        assemble([*orders[:2], without(orders[2], gone), orders[3]], "x")
    bigrams = orders[1]
    doubled = Entries(
        np.concatenate((bigrams.rows, bigrams.rows[2:3])),
        np.append(bigrams.log_probs, -1.0),
        np.append(bigrams.backoffs, 0.0),
        bigrams.line,
    )
    with pytest.raises(SeqloomError, match=f"x, line {20 + len(bigrams)}: duplicate n-gram"):
        assemble([orders[0], doubled], "x")


def test_backoff_without_continuations_is_used() -> None:
    """Other programs may prune all continuations of a context and keep its backoff weight."""
    words = Entries(np.arange(6)[:, None], np.log(np.full(6, 0.25)), np.zeros(6))
    pair = Entries(np.array([[4, 5]]), np.array([-1.0]), np.array([-0.5]))
    longer = Entries(np.zeros((0, 3), int), np.zeros(0), np.zeros(0))
    model = Ngrams(assemble([words, pair, longer], "x"))
    assert model.log_prob((4,), 5) == (-1.0, (4, 5))
    assert model.log_prob((4, 5), 3)[0] == pytest.approx(-0.5 + np.log(0.25))
