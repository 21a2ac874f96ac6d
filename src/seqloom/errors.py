"""The one exception that a user may meet: a sentence and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SeqloomError(Exception):
    """A mistake that the person can mend: what is wrong and where, and a hint on what to do.

    The command line prints both and exits with 2; a traceback always means a bug of ours.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


def unknown(what: str, name: str, known: Iterable[str]) -> SeqloomError:
    """The error for a name that does not exist, with the nearest one that does, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the {what}s are {', '.join(names)}"
    return SeqloomError(f"There is no {what} called {name!r}.", hint)
