"""Lists of search options on the command line, such as `1,4`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, get_args

from seqloom.decode.config import Norm, SearchConfig
from seqloom.errors import SeqloomError, unknown
from seqloom.tune.search import NORMS, PENALTIES

_Value = TypeVar("_Value", int, float)


def sizes_of(text: str | None) -> list[int]:
    """Return the beam sizes; none if they are not given."""
    return [] if text is None else _numbers(text, int, "beam")


def penalties_of(text: str | None) -> list[float]:
    """Return the length penalties."""
    return list(PENALTIES) if text is None else _numbers(text, float, "length_penalty")


def norms_of(text: str | None) -> list[Norm]:
    """Return the length norms."""
    if text is None:
        return list(NORMS)
    known: dict[str, Norm] = {name: name for name in get_args(Norm)}
    names = _parts(text, "length_norm")
    for name in names:
        if name not in known:
            raise unknown("length norm", name, known)
    return [known[name] for name in names]


def _numbers(text: str, kind: Callable[[str], _Value], option: str) -> list[_Value]:
    """Return the numbers, which are valid values of the option."""
    try:
        values = [kind(part) for part in _parts(text, option)]
    except ValueError as error:
        raise SeqloomError(f"{text!r} is not a list of values of search.{option}.", "e.g. 1,4,8") from error
    for value in values:
        SearchConfig.checked({option: value}, "search")
    return values


def _parts(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise SeqloomError(f"There is no value of search.{option} to compare.", "e.g. --beams 1,4")
    return parts
