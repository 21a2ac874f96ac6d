"""Links of both directions made one alignment (Och & Ney 2003; Koehn, Och & Marcu 2003)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import unknown

Method = Literal[
    "grow-diag-final-and", "grow-diag-final", "grow-diag", "intersection", "union", "forward", "backward"
]
METHODS: tuple[Method, ...] = get_args(Method)

Mask = NDArray[np.bool_]  # (B, S, T), True: linked
Place = tuple[int, int]  # source, target

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrised(forward: Mask, backward: Mask, method: Method) -> Mask:
    """The links that the method makes of those of both directions, for B pairs of one shape."""
    if method == "forward":
        return forward
    if method == "backward":
        return backward
    if method == "union":
        return forward | backward
    links = forward & backward
    if method not in METHODS:
        raise unknown("symmetrisation", method, METHODS)
    if method != "intersection":
        differ = np.flatnonzero((forward != backward).any(axis=(1, 2)))
        for row, one, other in zip(differ, _places(forward[differ]), _places(backward[differ]), strict=True):
            for i, j in _grown(one, other, method):
                links[row, i, j] = True
    return links


def _grown(forward: list[Place], backward: list[Place], method: Method) -> set[Place]:
    """The intersection of the links of one pair, grown as the method says."""
    growing = _Growing(set(forward).intersection(backward))
    growing.along({*forward, *backward})
    if method != "grow-diag":
        for side in (forward, backward):
            growing.finish(side, both=method == "grow-diag-final-and")
    return growing.links


def _places(links: Mask) -> list[list[Place]]:
    """The places of the links of every pair, in order."""
    found: list[list[Place]] = [[] for _ in links]
    for row, i, j in np.argwhere(links).tolist():
        found[row].append((i, j))
    return found


class _Growing:
    """Links that grow, and which words have one."""

    def __init__(self, links: set[Place]) -> None:
        self.links = links
        self.sources = {i for i, _ in self.links}
        self.targets = {j for _, j in self.links}

    def add(self, place: Place) -> None:
        self.links.add(place)
        self.sources.add(place[0])
        self.targets.add(place[1])

    def along(self, union: set[Place]) -> None:
        """Adds places of the union that touch a link and give one to a word without, until there are no more.

        Links are visited in order, those that are added on the way too, as in the usual implementations.
        """
        waiting = union - self.links
        before = -1
        while waiting and before < len(self.links):
            before = len(self.links)
            visit = sorted(self.links, reverse=True)
            while visit:
                i, j = visit.pop()
                for down, right in _NEIGHBOURS:
                    place = (i + down, j + right)
                    if place in waiting and (place[0] not in self.sources or place[1] not in self.targets):
                        waiting.remove(place)
                        self.add(place)
                        if place > (i, j):
                            visit.append(place)
                            visit.sort(reverse=True)

    def finish(self, candidates: list[Place], *, both: bool) -> None:
        """Adds candidates whose words have no link: either of them, or both."""
        for i, j in candidates:
            if (i not in self.sources) + (j not in self.targets) > both:
                self.add((i, j))
