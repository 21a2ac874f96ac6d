"""Mixture of corpora: the share of each corpus in an epoch, and where the epoch continues in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

# Seeds of several numbers end with one of these, since (1, 0) and (1, 0, 0) give the same generator.
ORDER, WINDOW, SUBWORDS, WORDS = 1, 2, 3, 4


class Mixture:
    """Weighted mixture of corpora. Epochs consist of windows that draw from each corpus by its weight.

    An epoch has about as many pairs as all corpora together. A corpus is read without end, pass after pass, and
    an epoch continues in it where the last one stopped: a small corpus is repeated, and a large one takes
    several epochs. Everything follows from the arguments, so every position can be restored.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], *, window: int) -> None:
        total = sum(sizes)
        self.sizes = sizes
        self.quotas = [max(1, round(total * weight / sum(weights))) for weight in weights]
        self.windows = -(-total // window)

    @property
    def pairs(self) -> int:
        """Number of pairs per epoch."""
        return sum(self.quotas)

    def start(self, window: int) -> int:
        """Return the number of pairs of the epoch before this window."""
        return sum(quota * window // self.windows for quota in self.quotas)

    def window_of(self, position: int) -> int:
        """Return the window that contains this pair of the epoch."""
        return bisect_right(range(self.windows + 1), position, key=self.start) - 1

    def window(self, epoch: int, number: int) -> list[range]:
        """Return the positions of the pairs of a window, by corpus, counted from the first epoch."""
        return [
            range(*(epoch * quota + quota * edge // self.windows for edge in (number, number + 1)))
            for quota in self.quotas
        ]


def passes(positions: range, size: int) -> Iterator[tuple[int, range]]:
    """Split positions in a repeated corpus into passes; yield pass numbers and positions within a pass."""
    first = positions.start
    while first < positions.stop:
        number, begin = divmod(first, size)
        end = min(size, begin + positions.stop - first)
        yield number, range(begin, end)
        first += end - begin


def by_temperature(sizes: Sequence[int], temperature: float) -> list[float]:
    """Return weights n^(1/T): T = 1 is by size, T → ∞ is uniform (Arivazhagan et al. 2019)."""
    return [float(size) ** (1 / temperature) for size in sizes]
