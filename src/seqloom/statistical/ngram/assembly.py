"""Tables from n-grams that come in any order, as another program's file lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.statistical.ngram.levels import Level, bounds

Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Entries:
    """n-grams of one order as a file lists them."""

    rows: Ints  # (M, n)
    log_probs: NDArray[np.float64]  # natural logarithms
    backoffs: NDArray[np.float64]
    line: int = 0  # of the first in the file; the others follow

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class _Table:
    """n-grams of one order, sorted; parents and suffixes are places in the order before."""

    keys: Ints  # parent * V + word, which they are sorted by
    words: Ints
    parents: Ints
    suffixes: Ints
    log_probs: NDArray[np.float64]
    backoffs: NDArray[np.float64]


def assemble(orders: Sequence[Entries], where: str) -> list[Level]:
    """The tables of a model. Order 1 has every word of the vocabulary, at its id.

    The tables need the end of every n-gram to be an n-gram, too. Where the file lacks it, it is added with the
    probability that it has without being there: no answer changes.
    """
    given, first = list(orders), orders[0]
    words, none = first.rows[:, 0], np.zeros(len(first), np.int32)
    tables = [_Table(words, words, none, none, first.log_probs, first.backoffs)]
    while (n := len(tables)) < len(given):
        entries = given[n]
        parents = _find(tables, entries.rows[:, :-1])
        _check(parents >= 0, entries, where, "it lacks the n-gram without the last word of this one")
        suffixes = _find(tables, entries.rows[:, 1:])
        if (suffixes < 0).any():
            given[n - 1] = _with(given[n - 1], np.unique(entries.rows[suffixes < 0, 1:], axis=0))
            tables.pop()  # and go back to it
        else:
            tables.append(_table(tables[-1], entries, parents, suffixes, len(first), where))
    return _levels(tables)


def _find(tables: Sequence[_Table], rows: Ints) -> Ints:
    """The place of every row of words in the table of its order; -1 for those that are not there."""
    vocabulary, places = len(tables[0].keys), rows[:, 0].astype(np.int64)
    for table, words in zip(tables[1:], rows.T[1:], strict=False):
        wanted = places * vocabulary + words
        at = np.searchsorted(table.keys, wanted)
        there = (places >= 0) & (at < len(table.keys))
        there[there] = table.keys[at[there]] == wanted[there]
        places = np.where(there, at, -1)
    return places


def _table(
    below: _Table, entries: Entries, parents: Ints, suffixes: Ints, vocabulary: int, where: str
) -> _Table:
    keys = parents * vocabulary + entries.rows[:, -1]
    order = np.argsort(keys, kind="stable")
    new = np.ones(len(keys), np.bool_)
    new[order[1:]] = np.diff(keys[order]) > 0
    _check(new, entries, where, "this n-gram stands here for the second time")
    probs = np.where(
        np.isnan(entries.log_probs), below.backoffs[parents] + below.log_probs[suffixes], entries.log_probs
    )
    return _Table(
        keys=keys[order],
        words=entries.rows[order, -1],
        parents=parents[order],
        suffixes=suffixes[order],
        log_probs=probs[order],
        backoffs=entries.backoffs[order],
    )


def _check(right: NDArray[np.bool_], entries: Entries, where: str, what: str) -> None:
    if not right.all():
        line = entries.line + int(np.argmin(right))
        raise SeqloomError(f"{where}, line {line}: {what}.", "the file is damaged; write it again")


def _with(entries: Entries, rows: Ints) -> Entries:
    """The entries and these rows, whose probabilities are not known yet."""
    unknown, none = np.full(len(rows), np.nan), np.zeros(len(rows))
    return Entries(
        np.concatenate((entries.rows, rows)),
        np.concatenate((entries.log_probs, unknown)),
        np.concatenate((entries.backoffs, none)),
        entries.line,
    )


def _levels(tables: Sequence[_Table]) -> list[Level]:
    levels = []
    for table, longer in zip(tables, [*tables[1:], None], strict=True):
        backoffs, continuations = np.zeros(0), np.zeros(0, np.int32)
        if longer is not None:
            backoffs, continuations = table.backoffs, bounds(longer.parents, len(table.words))
        levels.append(
            Level(
                table.words.astype(np.int32),
                table.log_probs.astype(np.float32),
                backoffs.astype(np.float32),
                continuations,
                table.suffixes.astype(np.int32),
            )
        )
    return levels
