"""How much of every corpus an epoch has, and where in it the epoch goes on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

# Seeds of several numbers end with one of these: (1, 0) and (1, 0, 0) would give the same generator.
ORDER, WINDOW = 1, 2


class Mixture:
    """Epochs in windows, each of which takes from every corpus in proportion to its weight.

    An epoch has about as many pairs as all corpora together. A corpus is endless, one pass behind the other,
    and an epoch goes on in it where the last one stopped: a small one is repeated, a large one takes several
    epochs. All of it follows from the numbers given, so every place can be found again.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], *, window: int) -> None:
        total = sum(sizes)
        self.sizes = sizes
        self.quotas = [max(1, round(total * weight / sum(weights))) for weight in weights]
        self.windows = -(-total // window)

    @property
    def pairs(self) -> int:
        """How many an epoch has."""
        return sum(self.quotas)

    def start(self, window: int) -> int:
        """How many pairs of the epoch are in the windows before this one."""
        return sum(quota * window // self.windows for quota in self.quotas)

    def window_of(self, place: int) -> int:
        """The window that begins with this pair of the epoch or has it inside."""
        return bisect_right(range(self.windows + 1), place, key=self.start) - 1

    def window(self, epoch: int, number: int) -> list[range]:
        """The places of a window's pairs, by corpus, counted from the first epoch on."""
        return [
            range(*(epoch * quota + quota * edge // self.windows for edge in (number, number + 1)))
            for quota in self.quotas
        ]


def passes(places: range, size: int) -> Iterator[tuple[int, range]]:
    """The places of an endless corpus as numbers of passes and places within one."""
    first = places.start
    while first < places.stop:
        number, begin = divmod(first, size)
        end = min(size, begin + places.stop - first)
        yield number, range(begin, end)
        first += end - begin


def by_temperature(sizes: Sequence[int], temperature: float) -> list[float]:
    """Weights n^(1/T): at 1 by size, towards infinity all alike (Arivazhagan et al. 2019)."""
    return [float(size) ** (1 / temperature) for size in sizes]
