"""Base classes of all commands: layout of --help, and usage errors with a hint.

Recent versions of Typer bundle Click and do not export its types, so contexts and parameters are `Any` here.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from seqloom.cli.help_text import HelpRow, help_text
from seqloom.cli.usage_errors import UsageError, as_seqloom_error
from seqloom.errors import unknown


class Command(TyperCommand):
    """Command with our layout of --help and our usage errors."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        parameters = list(self.get_params(ctx))
        usage = f"{ctx.command_path} {' '.join([*_usage_arguments(parameters), '[OPTIONS]'])}"
        formatter.write(_formatted(usage, self.help or "", _parameter_rows(parameters)))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)  # the parser empties `args`
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            raise as_seqloom_error(error, ctx, words) from error


class CommandGroup(TyperGroup):
    """Command with subcommands, listed by topic."""

    topics: ClassVar[tuple[str, ...]] = ("Commands",)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        usage = f"{ctx.command_path} COMMAND [ARGUMENTS] [OPTIONS]"
        rows = [*self._command_rows(), *_parameter_rows(self.get_params(ctx))]
        formatter.write(_formatted(usage, self.help or "", rows))

    def _command_rows(self) -> list[tuple[str, HelpRow]]:
        rows = []
        for name, command in self.commands.items():
            topic = getattr(command, "rich_help_panel", None) or self.topics[0]
            rows.append((topic, HelpRow(name, (command.help or "").partition("\n\n")[0])))
        return sorted(rows, key=lambda row: self.topics.index(row[0]))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(2)
        words = list(args)  # the parser empties `args`
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            raise as_seqloom_error(error, ctx, words) from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)


def _formatted(usage: str, description: str, rows: Iterable[tuple[str, HelpRow]]) -> str:
    sections: dict[str, list[HelpRow]] = {}
    for title, row in rows:
        sections.setdefault(title, []).append(row)
    columns = shutil.get_terminal_size().columns
    return help_text(usage, description, sections, columns=columns, heading=_bold)


def _bold(text: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, bold=True)


def _usage_arguments(parameters: Iterable[Any]) -> Iterator[str]:
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            name = _argument_name(parameter) + ("..." if parameter.nargs == -1 else "")
            yield name if parameter.required else f"[{name}]"


def _parameter_rows(parameters: Iterable[Any]) -> Iterator[tuple[str, HelpRow]]:
    for parameter in parameters:
        if getattr(parameter, "hidden", False):
            continue
        text = f"{parameter.help} {_default(parameter)}"
        if parameter.param_type_name == "argument":
            yield "Arguments", HelpRow(_argument_name(parameter), text)
        else:
            yield (
                getattr(parameter, "rich_help_panel", None) or "Options",
                HelpRow(_option_name(parameter), text),
            )


def _argument_name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option_name(option: Any) -> str:
    """Return e.g. `-n, --count N` or `--agree / --no-agree`; without a metavar, the last word of the name."""
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return " / ".join([names, *option.secondary_opts])
    return f"{names} {option.metavar or option.opts[0].rpartition('-')[2].upper()}"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "[required]" if parameter.param_type_name == "option" else ""
    value = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    shown = isinstance(value, str | int | float | Path) and not isinstance(value, bool) and value != ""
    return f"[default: {value}]" if shown else ""
