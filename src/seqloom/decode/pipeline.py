"""Steps shared by all decoders: batch items of similar length, decode, restore the order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

Progress = Callable[[int], None]  # called with the number of items that were finished
Result = TypeVar("Result")


def batches_by_length(lengths: Sequence[int], *, batch_tokens: int, rows: int = 1) -> Iterator[list[int]]:
    """Yield batches of positions of items of similar length, longest first; items of length 0 are skipped.

    A batch of n items padded to length L holds n · (L + 1) · rows ≤ batch_tokens tokens, where `rows` is the
    number of hypotheses per item. An item that exceeds the budget is a batch by itself.
    """
    group: list[int] = []
    for i in sorted((i for i, n in enumerate(lengths) if n), key=lambda i: -lengths[i]):
        if group and (len(group) + 1) * (lengths[group[0]] + 1) * rows > batch_tokens:
            yield group
            group = []
        group.append(i)
    if group:
        yield group


class BatchedResults(Generic[Result]):
    """Results of items that are decoded in batches of similar length, in the order of the items.

        found = BatchedResults(lengths, empty=0.0)
        for places in found.batches(batch_tokens=4096):
            found.put(places, [score(items[i]) for i in places])
        return found.results

    An item of length 0 is not decoded: its result is `empty`.
    """

    def __init__(self, lengths: Sequence[int], *, empty: Result, on_progress: Progress | None = None) -> None:
        self.results = [empty] * len(lengths)
        self._lengths, self._on_progress = lengths, on_progress
        self._report(sum(not n for n in lengths))

    def batches(self, *, batch_tokens: int, rows: int = 1, alone: Collection[int] = ()) -> Iterator[list[int]]:
        """Yield the positions of the items of each batch; each item in `alone` is a batch by itself."""
        yield from ([i] for i in alone if self._lengths[i])
        together = [0 if i in alone else n for i, n in enumerate(self._lengths)]
        yield from batches_by_length(together, batch_tokens=batch_tokens, rows=rows)

    def put(self, places: Sequence[int], results: Iterable[Result]) -> None:
        """Store the results of a batch."""
        for i, result in zip(places, results, strict=True):
            self.results[i] = result
        self._report(len(places))

    def _report(self, count: int) -> None:
        if self._on_progress:
            self._on_progress(count)
