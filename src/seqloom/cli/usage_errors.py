"""Errors for wrong options and arguments, with suggestions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import typer

from seqloom.errors import SeqloomError
from seqloom.suggestions import suggest

UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # Typer does not export it


def as_seqloom_error(error: Any, ctx: Any, words: Sequence[str]) -> SeqloomError:
    """Convert Click's error about a wrong option or argument to a SeqloomError."""
    see = f"see {ctx.command_path} --help"
    if not hasattr(error, "possibilities"):
        return SeqloomError(error.format_message(), see)
    name = error.option_name
    if hasattr(ctx.command, "commands"):
        see = f"{see}; the options of a command follow its name"
    near = _suggestions(name, ctx.command, words)
    return SeqloomError(f"There is no option {name}.", f"did you mean {' or '.join(near)}?" if near else see)


def _suggestions(name: str, command: Any, words: Sequence[str]) -> list[str]:
    """Return replacements for an unknown option, with the value it was given."""
    flags = [flag for option in command.params for flag in (*option.opts, *option.secondary_opts)]
    near = suggest(name, [flag for flag in flags if flag.startswith("--")], _settable(command))
    value = _value(name, words)
    return [_with_value(option, value) for option in near]


def _settable(command: Any) -> list[str]:
    """Return the dotted options that --set of this command accepts, according to its metavar."""
    section = next((o.metavar.partition(".")[0] for o in command.params if "--set" in o.opts), None)
    if section is None:
        return []
    from seqloom.run.config import option_names

    return [name for name in option_names() if section in ("SECTION", name.partition(".")[0])]


def _value(option: str, words: Sequence[str]) -> str:
    """Return the value given to an option on the command line, or an empty string."""
    for word, following in pairwise([*words, ""]):
        if word == option:
            return "" if following.startswith("-") else following
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return ""


def _with_value(option: str, value: str) -> str:
    """Return the option with its value as it is typed; an option that includes a value keeps it."""
    if option.startswith("--"):
        return option if " " in option or not value else f"{option} {shlex.quote(value)}"
    assignment = option if "=" in option else f"{option}={value or 'VALUE'}"
    return f"--set {shlex.quote(assignment)}"
