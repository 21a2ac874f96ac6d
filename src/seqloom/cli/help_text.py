"""Layout of --help: plain text in two columns, with examples printed as written."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

_WIDEST = 100  # columns: longer lines are hard to read
_INDENT, _GAP = "  ", 2
_DEFAULT, _NO_BREAK = re.compile(r"\[default: [^\]]{,20}\]"), "\0"  # a short default stays on one line


class HelpRow(NamedTuple):
    """Option, argument or command, and its description."""

    name: str
    text: str


def help_text(
    usage: str,
    description: str,
    sections: Mapping[str, Sequence[HelpRow]],
    *,
    columns: int,
    heading: Callable[[str], str] = str,
) -> str:
    """Return the help of a command for a terminal with `columns` columns; `heading` may style headings."""
    width = min(columns, _WIDEST)
    parts = [_usage(usage, width), *_paragraphs(description, width, heading)]
    names = [row.name for rows in sections.values() for row in rows]
    column = _name_column(names, width)
    for title, rows in sections.items():
        parts.append("\n".join([heading(f"{title}:"), *(_row(row, column, width) for row in rows)]))
    return "\n\n".join(parts) + "\n"


def _usage(usage: str, width: int) -> str:
    return _wrapped(usage, width, first="Usage: ", later=" " * 7)


def _paragraphs(description: str, width: int, heading: Callable[[str], str]) -> Iterator[str]:
    """Yield the paragraphs, wrapped; an indented paragraph, such as an example, stays as it is."""
    for paragraph in re.split(r"\n\s*\n", textwrap.dedent(description).strip()):
        first, _, rest = paragraph.partition("\n")
        if paragraph.startswith(" "):
            yield paragraph
        elif first.endswith(":") and rest.startswith(" "):
            yield f"{heading(first)}\n{rest}"
        elif paragraph:
            yield _wrapped(paragraph, width)


def _name_column(names: Sequence[str], width: int) -> int:
    """Return the width of the first column: the longest name, but at most a third of the line."""
    longest = max(map(len, names), default=0)
    return min(len(_INDENT) + longest + _GAP, width // 3)


def _row(row: HelpRow, column: int, width: int) -> str:
    """Return a name and its description, which starts on the next line if the name is long."""
    name = f"{_INDENT}{row.name}"
    if len(name) + _GAP > column:
        return f"{name}\n{_wrapped(row.text, width, first=' ' * column, later=' ' * column)}"
    return _wrapped(row.text, width, first=name.ljust(column), later=" " * column)


def _wrapped(text: str, width: int, first: str = "", later: str = "") -> str:
    return textwrap.fill(
        _DEFAULT.sub(lambda default: default[0].replace(" ", _NO_BREAK), " ".join(text.split())),
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(_NO_BREAK, " ")
