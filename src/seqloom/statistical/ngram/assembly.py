"""Construction of n-gram tables from unsorted n-grams, such as the entries of an ARPA file."""

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
    """The n-grams of one order, in file order."""

    rows: Ints  # (M, n)
    log_probs: NDArray[np.float64]  # natural logarithms
    backoffs: NDArray[np.float64]
    line: int = 0  # line number of the first entry; the others follow

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class _SortedNgrams:
    """The sorted n-grams of one order; parents and suffixes are indices into the previous order."""

    keys: Ints  # parent * V + word: the sort key
    words: Ints
    parents: Ints
    suffixes: Ints
    log_probs: NDArray[np.float64]
    backoffs: NDArray[np.float64]


def assemble(orders: Sequence[Entries], where: str) -> list[Level]:
    """Return the tables of a model. Order 1 has every word of the vocabulary, indexed by its id.

    The tables require the suffix of every n-gram to be an n-gram, too. A suffix that the file lacks is added
    with its backoff probability, so that no probability changes.
    """
    remaining, first = list(orders), orders[0]
    words, zeros = first.rows[:, 0], np.zeros(len(first), np.int32)
    tables = [_SortedNgrams(words, words, zeros, zeros, first.log_probs, first.backoffs)]
    while (n := len(tables)) < len(remaining):
        entries = remaining[n]
        parents = _find(tables, entries.rows[:, :-1])
        _check(parents >= 0, entries, where, "the file lacks this n-gram without its last word")
        suffixes = _find(tables, entries.rows[:, 1:])
        if (suffixes < 0).any():
            remaining[n - 1] = _with_rows(remaining[n - 1], np.unique(entries.rows[suffixes < 0, 1:], axis=0))
            tables.pop()  # rebuild the previous order
        else:
            tables.append(_table(tables[-1], entries, parents, suffixes, len(first), where))
    return _levels(tables)


def _find(tables: Sequence[_SortedNgrams], rows: Ints) -> Ints:
    """Return the index of every row of words in the table of its order; -1 if it is missing."""
    vocabulary, indices = len(tables[0].keys), rows[:, 0].astype(np.int64)
    for table, words in zip(tables[1:], rows.T[1:], strict=False):
        keys = indices * vocabulary + words
        candidates = np.searchsorted(table.keys, keys)
        exists = (indices >= 0) & (candidates < len(table.keys))
        exists[exists] = table.keys[candidates[exists]] == keys[exists]
        indices = np.where(exists, candidates, -1)
    return indices


def _table(
    below: _SortedNgrams, entries: Entries, parents: Ints, suffixes: Ints, vocabulary: int, where: str
) -> _SortedNgrams:
    keys = parents * vocabulary + entries.rows[:, -1]
    order = np.argsort(keys, kind="stable")
    unique = np.ones(len(keys), np.bool_)
    unique[order[1:]] = np.diff(keys[order]) > 0
    _check(unique, entries, where, "duplicate n-gram")
    probs = np.where(
        np.isnan(entries.log_probs), below.backoffs[parents] + below.log_probs[suffixes], entries.log_probs
    )
    return _SortedNgrams(
        keys=keys[order],
        words=entries.rows[order, -1],
        parents=parents[order],
        suffixes=suffixes[order],
        log_probs=probs[order],
        backoffs=entries.backoffs[order],
    )


def _check(valid: NDArray[np.bool_], entries: Entries, where: str, problem: str) -> None:
    if not valid.all():
        line = entries.line + int(np.argmin(valid))
        raise SeqloomError(f"{where}, line {line}: {problem}.", "the file is damaged; create it again")


def _with_rows(entries: Entries, rows: Ints) -> Entries:
    """Append rows whose probabilities are not known yet (NaN)."""
    unknown, zeros = np.full(len(rows), np.nan), np.zeros(len(rows))
    return Entries(
        np.concatenate((entries.rows, rows)),
        np.concatenate((entries.log_probs, unknown)),
        np.concatenate((entries.backoffs, zeros)),
        entries.line,
    )


def _levels(tables: Sequence[_SortedNgrams]) -> list[Level]:
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
