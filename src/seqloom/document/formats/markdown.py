"""Markdown (CommonMark, with tables, strikethrough and YAML front matter).

markdown-it finds the blocks and their inline markup. Each block is then found again in the file, character by
character; a block whose markup cannot be located exactly stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from seqloom.document.formats.base import TextFormat, lines_of, without_end
from seqloom.document.segments import Atom, Block, InPlace, Role, raw
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_SPECIAL = frozenset("\\`*_[]<>&~|")
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(?:[^\n]*\n)*?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
# The beginning of a line that would start another block.
_STARTS_BLOCK = re.compile(r"\s*(?:[-+*=#>|:~`<]|\d{1,9}[.)])")
_SOFT_BREAK = re.compile(r"[ \t]*\n[ \t]*")
_HARD_BREAK = re.compile(r"(?: {2,}|\\|[ \t]+)\n[ \t]*")
_BALANCED = r"\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*+\))*+\)"
_LINK_END = re.compile(rf"\](?:{_BALANCED}|\[(?:[^\[\]\\]|\\.)+\])", re.DOTALL)
_SHORTCUT = re.compile(r"\[(?:[^\[\]\\]|\\.)*+\](?:\[\])?", re.DOTALL)
_IMAGE = re.compile(rf"!\[(?:[^\[\]\\]|\\.)*+\](?:{_BALANCED}|\[(?:[^\[\]\\]|\\.)*+\])?", re.DOTALL)
_HTML_NAME = re.compile(r"</?([A-Za-z][\w-]*)")
_VOID = frozenset({"br", "img", "hr", "wbr", "input", "source", "area", "col", "embed", "link", "meta"})


class MarkdownText(InPlace):
    """Text of a block of Markdown."""

    def escape_character(self, character: str, plain: Set[str]) -> str:
        """Escape the characters of markup, unless the source has them unescaped as well."""
        return character if character not in _SPECIAL or character in plain else f"\\{character}"

    def may_break(self, text: str, space: int) -> bool:
        """Do not break a line where the next one would begin another block."""
        return not _STARTS_BLOCK.match(text, space + 1)


_WRITER = MarkdownText()


class Markdown(TextFormat):
    """Markdown."""

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for each paragraph, heading and cell of a table."""
        front = _FRONT_MATTER.match(text)
        begun = front.end() if front else int(text.startswith("\ufeff"))
        yield text[:begun]
        lines = [line for _, line in lines_of(text[begun:])]
        starts = [begun]
        for line in lines:
            starts.append(starts[-1] + len(line))
        position, first_line = begun, text.count("\n", 0, begun) + 1
        # markdown-it replaces NUL, which changes no lengths, and line ends, which are restored line by line.
        for token in _parser().parse("\n".join(map(without_end, lines))):
            if token.type != "inline" or token.map is None or not token.content.strip():
                continue
            place = f"line {first_line + token.map[0]}"
            found = _find(token.content, lines, starts, token.map[0], position)
            atoms = None if found is None else _Inline(token, found.ends).atoms()
            if found is None or atoms is None or raw(atoms) != text[found.start : found.end]:
                yield Block((Atom(token.content, ""),), place, skip="unknown markup")
                continue
            yield text[position : found.start]
            yield Block(atoms, place, _WRITER)
            position = found.end
        yield text[position:]


class _Location(NamedTuple):
    """Location of a block in the file, and what stands there between its lines."""

    start: int
    end: int
    ends: list[str]


def _find(
    content: str, lines: Sequence[str], starts: Sequence[int], first: int, position: int
) -> _Location | None:
    """Return the location of a block in the file."""
    spans = []
    for number, line in enumerate(content.split("\n"), first):
        if number >= len(lines):
            return None
        column = lines[number].find(line, max(0, position - starts[number]))
        if column < 0:
            return None
        start = starts[number] + column
        position = start + len(line)
        spans.append((start, position, number))
    ends = []
    for (_, end, number), (start, _, after) in pairwise(spans):
        ends.append(lines[number][end - starts[number] :] + lines[after][: start - starts[after]])
    return _Location(spans[0][0], spans[-1][1], ends)


class _Inline:
    """Inline markup of a block, read along its content."""

    def __init__(self, token: Token, ends: Sequence[str]) -> None:
        self._content, self._children, self._ends = token.content, token.children or [], iter(ends)
        self._position = 0
        self._atoms: list[Atom] = []

    def atoms(self) -> tuple[Atom, ...] | None:
        """Return the atoms; None if a child is not where it is expected."""
        skipped = 0
        for i, child in enumerate(self._children):
            if skipped:
                skipped -= 1
                continue
            taken = self._take(child, self._children[i + 1 :] if child.type == "link_open" else ())
            if taken < 0:
                return None
            skipped = taken
        return tuple(self._atoms) if self._position == len(self._content) else None

    def _take(self, child: Token, after: Sequence[Token]) -> int:
        """Add the atoms of a child; return how many of the next children they include, -1 if not found."""
        kind = child.type
        if kind == "text":
            return self._add(child.content, child.content)
        if kind == "text_special":
            return self._add(child.content, child.markup)
        if kind in ("softbreak", "hardbreak"):
            return self._line_break(
                _SOFT_BREAK if kind == "softbreak" else _HARD_BREAK, soft=kind == "softbreak"
            )
        if kind == "code_inline":
            end = self._content.find(child.markup, self._position + len(child.markup))
            while end >= 0 and self._content[end + len(child.markup) : end + len(child.markup) + 1] == "`":
                end = self._content.find(child.markup, _run_end(self._content, end))
            return self._code(self._content[self._position : end + len(child.markup)]) if end >= 0 else -1
        if kind == "html_inline":
            return self._add("", child.content, *_role(child.content))
        if kind == "image":
            return self._match(_IMAGE, "single")
        if kind == "link_open":
            return self._link(child, after)
        if kind == "link_close":
            return self._match(_LINK_END, "close", "link")
        base, _, side = kind.rpartition("_")
        if base in ("em", "strong", "s"):
            return self._add("", child.markup, "open" if side == "open" else "close", base)
        return -1

    def _link(self, child: Token, after: Sequence[Token]) -> int:
        length = next(i for i, token in enumerate(after, 1) if token.type == "link_close")
        if child.markup == "autolink":
            end = self._content.find(">", self._position) + 1
            return (
                length
                if self._add(self._content[self._position : end], self._content[self._position : end]) == 0
                else -1
            )
        shortcut = _SHORTCUT.match(self._content, self._position)
        if shortcut and self._content[shortcut.end() : shortcut.end() + 1] not in ("(", "["):
            # The text of a reference such as [name] is also its key: it stays unchanged.
            return length if self._match(_SHORTCUT, "single") == 0 else -1
        return self._add("", "[", "open", "link")

    def _match(self, pattern: re.Pattern[str], role: Role, name: str = "") -> int:
        match = pattern.match(self._content, self._position)
        return self._add("", match[0], role, name) if match else -1

    def _line_break(self, pattern: re.Pattern[str], *, soft: bool) -> int:
        match = pattern.match(self._content, self._position)
        if match is None:
            return -1
        before, _, after = match[0].partition("\n")
        form = before + next(self._ends) + after
        self._position = match.end()
        self._atoms.append(Atom(" ", form, "space") if soft else Atom("\n", form))
        return 0

    def _add(self, text: str, form: str, role: Role = "text", name: str = "") -> int:
        if not self._content.startswith(form, self._position):
            return -1
        self._position += len(form)
        if form:
            in_file = re.sub("\n", lambda _: next(self._ends), form)
            self._atoms.append(Atom(text, in_file, role, name))
        return 0

    def _code(self, code: str) -> int:
        for i, line in enumerate(code.split("\n")):
            if i:
                self._position += 1
                self._atoms.append(Atom(" ", next(self._ends), "space"))
            self._add(line, line)
        return 0


def _run_end(text: str, position: int) -> int:
    while position < len(text) and text[position] == "`":
        position += 1
    return position


def _role(tag: str) -> tuple[Role, str]:
    """Return the role and the name of an HTML tag."""
    match = _HTML_NAME.match(tag)
    if match is None or tag.endswith("/>") or match[1].lower() in _VOID:
        return "single", ""
    return ("close" if tag.startswith("</") else "open"), match[1].lower()


@cache
def _parser() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise SeqloomError(
            "Reading Markdown needs the library markdown-it-py, which is not installed.",
            "pip install 'seqloom[documents]'",
        ) from error
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")


FORMAT = Markdown()
