"""`--import FILE`: models that are defined in files of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from seqloom.errors import SeqloomError

_OPTION = "--import"


class Commands(TyperGroup):
    """The commands of seqloom; --import is accepted before the command, and after it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, imports_first(args))


def imports_first(words: list[str]) -> list[str]:
    """Return the words of a command line with every --import in front of the command."""
    end = words.index("--") if "--" in words else len(words)
    imports, others, waiting = list[str](), list[str](), iter(words[:end])
    for word in waiting:
        if word == _OPTION:
            if (file := next(waiting, None)) is None:
                raise SeqloomError("--import names no file.", "e.g. --import my_model.py")
            imports += [word, file]
        else:
            (imports if word.startswith(f"{_OPTION}=") else others).append(word)
    return [*imports, *others, *words[end:]]


def _import(files: list[Path] | None) -> None:
    from seqloom.registry import import_file

    for file in files or ():
        import_file(file)


Imports = Annotated[
    list[Path] | None,
    typer.Option(
        _OPTION,
        metavar="FILE",
        callback=_import,
        envvar="SEQLOOM_IMPORT",
        help="A Python file that registers models of your own; repeatable, also after the command.",
    ),
]
