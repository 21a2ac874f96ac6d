"""The one exception that a user may meet: a sentence and what to do about it."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

LONGEST = 1500  # characters of a message: what it quotes may be a whole file

_QUOTE = reprlib.Repr()
_QUOTE.maxstring = _QUOTE.maxother = _QUOTE.maxlong = 200
_QUOTE.maxlist = _QUOTE.maxtuple = _QUOTE.maxdict = 6
_QUOTE.maxlevel = 2


class SeqloomError(Exception):
    """A mistake that the person can mend: what is wrong and where, and a hint on what to do.

    The command line prints both and exits with 2; a traceback always means a bug of ours.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = _sentence(message)
        self.hint = _sentence(hint)

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


def _sentence(text: str) -> str:
    """The text on one line, not too long; what would move a terminal's cursor or colour it is spelled."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(value: Any) -> str:
    """The value as it is written, cut where it is long: a few lines of YAML can stand for gigabytes."""
    return _QUOTE.repr(value)


def require_known(what: str, name: object, known: Iterable[str]) -> None:
    """Raise an error unless the name is one of the known ones."""
    names = list(known)
    if name not in names:
        raise unknown(what, str(name), names)


def unknown(what: str, name: str, known: Iterable[str]) -> SeqloomError:
    """Return the error for a name that does not exist, with the nearest one that does, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the {_plural(what)} are {', '.join(names)}"
    return SeqloomError(f"There is no {what} called {name!r}.", hint)


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
