"""`--import FILE`: the user's Python files that register models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.errors import SeqloomError

_OPTION = "--import"


def imports_first(words: list[str]) -> list[str]:
    """Return the words of a command line with every --import moved in front of the command."""
    end = words.index("--") if "--" in words else len(words)
    imports, others, remaining = list[str](), list[str](), iter(words[:end])
    for word in remaining:
        if word == _OPTION:
            if (file := next(remaining, None)) is None:
                raise SeqloomError("--import needs a file.", "e.g. --import my_model.py")
            imports += [word, file]
        else:
            (imports if word.startswith(f"{_OPTION}=") else others).append(word)
    return [*imports, *others, *words[end:]]


def _import(files: list[Path] | None) -> None:
    from seqloom.registry import import_file

    for file in files or ():
        import_file(file)


UserModules = Annotated[
    list[Path] | None,
    typer.Option(
        _OPTION,
        metavar="FILE",
        callback=_import,
        envvar="SEQLOOM_IMPORT",
        help="Python file that registers your own models; repeatable, also accepted after the command "
        "(environment: SEQLOOM_IMPORT).",
    ),
]
