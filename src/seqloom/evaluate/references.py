"""Lines that share a source as alternatives of one another."""

from __future__ import annotations

from collections.abc import Iterable


def group_by_source(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[list[str]]]:
    """The distinct sources in their first order, and the distinct targets of each.

    A pronunciation dictionary has one line per variant: the model is asked once per word, any variant is right.
    """
    groups: dict[str, dict[str, None]] = {}
    for source, target in pairs:
        groups.setdefault(source, {})[target] = None
    return list(groups), [list(targets) for targets in groups.values()]
