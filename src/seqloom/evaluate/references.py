"""Grouping of lines with the same source as alternative references."""

from __future__ import annotations

from collections.abc import Iterable


def group_by_source(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the distinct sources in order of first occurrence, and the distinct targets of each.

    A pronunciation dictionary has one line per variant: a word is evaluated once, and any variant is correct.
    """
    groups: dict[str, dict[str, None]] = {}
    for source, target in pairs:
        groups.setdefault(source, {})[target] = None
    return list(groups), [list(targets) for targets in groups.values()]
