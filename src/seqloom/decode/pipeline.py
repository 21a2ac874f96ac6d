"""The path every decoder shares: batch items of similar length, decode, restore the order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import TypeVar

Progress = Callable[[int], None]  # called with the number of items that were finished
Result = TypeVar("Result")


def batches_by_length(lengths: Sequence[int], *, batch_tokens: int, rows: int = 1) -> Iterator[list[int]]:
    """Yield the positions of items of similar length, longest first; items of length 0 are left out.

    A batch of n items padded to length L holds n · (L + 1) · rows ≤ batch_tokens tokens, where `rows` is the
    number of hypotheses per item. An item that is too long for the budget is a batch of its own.
    """
    group: list[int] = []
    for i in sorted((i for i, n in enumerate(lengths) if n), key=lambda i: -lengths[i]):
        if group and (len(group) + 1) * (lengths[group[0]] + 1) * rows > batch_tokens:
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def decode_in_batches(
    lengths: Sequence[int],
    decode: Callable[[list[int]], Sequence[Result]],
    *,
    batch_tokens: int,
    rows: int = 1,
    empty: Result,
    alone: Collection[int] = (),
    on_progress: Progress | None = None,
) -> list[Result]:
    """Return what `decode` gives for every item, in the order of the items.

    `decode` gets the positions of the items of one batch. An item of length 0 is not decoded: its result is
    `empty`. The items at the positions `alone` are batches of one.
    """
    results = [empty] * len(lengths)
    if on_progress:
        on_progress(sum(not n for n in lengths))
    together = [0 if i in alone else n for i, n in enumerate(lengths)]
    groups = batches_by_length(together, batch_tokens=batch_tokens, rows=rows)
    for group in chain(([i] for i in alone if lengths[i]), groups):
        for i, result in zip(group, decode(group), strict=True):
            results[i] = result
        if on_progress:
            on_progress(len(group))
    return results
