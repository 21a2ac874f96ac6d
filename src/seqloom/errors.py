"""The exception for user errors: an error message and a hint."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

LONGEST = 1500  # characters per message: a quoted value may be as long as a file

_QUOTE = reprlib.Repr()
_QUOTE.maxstring = _QUOTE.maxother = _QUOTE.maxlong = 200
_QUOTE.maxlist = _QUOTE.maxtuple = _QUOTE.maxdict = 6
_QUOTE.maxlevel = 2


class SeqloomError(Exception):
    """Error that the user can fix: a message (what is wrong, and where) and a hint (what to do).

    The command line prints both and exits with code 2. A traceback always means a bug in seqloom.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = _printable(message)
        self.hint = _printable(hint)

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


def _printable(text: str) -> str:
    """Return the text shortened to one line, with control characters, which could drive a terminal, escaped."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(value: Any) -> str:
    """Return the `repr` of a value, truncated: a few lines of YAML with aliases can expand to gigabytes."""
    return _QUOTE.repr(value)


def require_known(what: str, name: object, known: Iterable[str]) -> None:
    """Raise an error unless `name` is one of the known names."""
    names = list(known)
    if name not in names:
        raise unknown(what, str(name), names)


def unknown(what: str, name: str, known: Iterable[str]) -> SeqloomError:
    """Return the error for an unknown name; its hint is the closest known name, or a list of all."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the {_plural(what)} are {', '.join(names)}"
    return SeqloomError(f"There is no {what} called {name!r}.", hint)


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
