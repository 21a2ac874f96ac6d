"""JSON resource files: all string values are translated; keys, numbers and layout stay unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from seqloom.document.formats.base import TextFormat
from seqloom.document.segments import Atom, Block, InPlace
from seqloom.errors import SeqloomError

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^"{}\[\]:,]+')
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DEEPEST = 100


class JsonString(InPlace):
    """Text between quotes."""

    def __init__(self, *, ascii_only: bool) -> None:
        self._ascii_only = ascii_only

    def escape_character(self, character: str, plain: object) -> str:
        """Escape quotes, backslashes and control characters, and others if the file has ASCII only."""
        return json.dumps(character, ensure_ascii=self._ascii_only)[1:-1]


class Json(TextFormat):
    """JSON with text in its values. Keys that begin with @ describe a message (ARB)."""

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for every string value, with its keys as the place."""
        _check(text, name)
        writer = JsonString(ascii_only=text.isascii() and "\\u" in text)
        path = list[str | int]()
        is_key = False
        for match in _TOKEN.finditer(text):
            token = match[0]
            if token[0] != '"':
                yield token
                is_key = _follow(token, path, is_key=is_key)
                continue
            if is_key:
                path[-1] = json.loads(token)
            is_text = not is_key and not any(isinstance(one, str) and one.startswith("@") for one in path)
            if not is_text or _SURROGATE.search(json.loads(token)):
                yield token
                continue
            yield '"'
            yield Block(tuple(_atoms(token[1:-1])), ".".join(map(str, path)), writer)
            yield '"'


def _follow(token: str, path: list[str | int], *, is_key: bool) -> bool:
    """Update the path after a token; return whether the next string is a key."""
    if token == "{":
        path.append("")
        return True
    if token == "[":
        path.append(0)
        return False
    if token in "}]":
        path.pop()
        return False
    if token == ",":
        if isinstance(path[-1], int):
            path[-1] += 1
        return isinstance(path[-1], str)
    return is_key and token != ":"


def _atoms(content: str) -> Iterator[Atom]:
    position = 0
    for escape in _ESCAPE.finditer(content):
        if position < escape.start():
            yield Atom(content[position : escape.start()], content[position : escape.start()])
        yield Atom(json.loads(f'"{escape[0]}"'), escape[0])
        position = escape.end()
    if position < len(content):
        yield Atom(content[position:], content[position:])


def _check(text: str, name: str) -> None:
    depth = 0
    for match in _TOKEN.finditer(text):
        depth += (match[0] in "{[") - (match[0] in "}]")
        if depth > _DEEPEST:
            raise SeqloomError(f"{name} is nested more than {_DEEPEST} levels deep.", "translate its parts")
    try:
        json.loads(text.removeprefix("\ufeff"), parse_int=str, parse_float=str)
    except ValueError as error:
        raise SeqloomError(
            f"{name} is not valid JSON: {error}.", "check the file with python -m json.tool"
        ) from error


FORMAT = Json()
