"""Symmetrisation: links of both directions combined (Och & Ney 2003; Koehn, Och & Marcu 2003)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import unknown

Method = Literal[
    "grow-diag-final-and", "grow-diag-final", "grow-diag", "intersection", "union", "forward", "backward"
]
METHODS: tuple[Method, ...] = get_args(Method)

Mask = NDArray[np.bool_]  # (B, S, T), True = linked
Link = tuple[int, int]  # source position, target position

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise_links(forward: Mask, backward: Mask, method: Method) -> Mask:
    """Combine the links of both directions, for B pairs of one shape."""
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
        for row, one, other in zip(differ, _links(forward[differ]), _links(backward[differ]), strict=True):
            for i, j in _grow(one, other, method):
                links[row, i, j] = True
    return links


def _grow(forward: list[Link], backward: list[Link], method: Method) -> set[Link]:
    """Grow the intersection of the links of one pair by the given method."""
    alignment = _GrowingAlignment(set(forward).intersection(backward))
    alignment.grow({*forward, *backward})
    if method != "grow-diag":
        for side in (forward, backward):
            alignment.finish(side, both=method == "grow-diag-final-and")
    return alignment.links


def _links(mask: Mask) -> list[list[Link]]:
    """Return the links of every pair, in order."""
    rows: list[list[Link]] = [[] for _ in mask]
    for row, i, j in np.argwhere(mask).tolist():
        rows[row].append((i, j))
    return rows


class _GrowingAlignment:
    """A growing set of links, and the words that have one."""

    def __init__(self, links: set[Link]) -> None:
        self.links = links
        self.sources = {i for i, _ in self.links}
        self.targets = {j for _, j in self.links}

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def grow(self, union: set[Link]) -> None:
        """Add links of the union that touch a link and have an unlinked word, until there are none left.

        Links are visited in order, including those added on the way, as in the usual implementations.
        """
        remaining = union - self.links
        previous = -1
        while remaining and previous < len(self.links):
            previous = len(self.links)
            stack = sorted(self.links, reverse=True)
            while stack:
                i, j = stack.pop()
                for down, right in _NEIGHBOURS:
                    link = (i + down, j + right)
                    if link in remaining and (link[0] not in self.sources or link[1] not in self.targets):
                        remaining.remove(link)
                        self.add(link)
                        if link > (i, j):
                            stack.append(link)
                            stack.sort(reverse=True)

    def finish(self, candidates: list[Link], *, both: bool) -> None:
        """Add candidates that link an unlinked word or, if `both`, two unlinked words."""
        for i, j in candidates:
            if (i not in self.sources) + (j not in self.targets) > both:
                self.add((i, j))
