"""Translation of uploaded files; results are kept in memory for a while and never touch the disk."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from pathlib import PurePath
from typing import NamedTuple

from starlette.datastructures import UploadFile
from starlette.responses import Response

from seqloom.document.formats import FORMATS
from seqloom.serve.bodies import Fields
from seqloom.serve.errors import ApiError, bad_request
from seqloom.serve.jobs import DecodingTask
from seqloom.serve.models import Served
from seqloom.serve.options import document_options
from seqloom.serve.translation import Caller, translate_texts

_FORMATS = {".txt": "text", ".html": "html", ".htm": "html", ".srt": "subtitles"}
SUFFIXES = tuple(suffix for suffix, format in _FORMATS.items() if format in FORMATS)
_KEPT_SECONDS = 1800
_KEPT_BYTES = 64_000_000


class TextFile(NamedTuple):
    """An uploaded file: its suffix and its text."""

    suffix: str
    text: str


class _Kept(NamedTuple):
    content: bytes
    until: float


async def read_file(fields: Fields) -> TextFile:
    """Return the uploaded file of a request; only the suffix of its name is used."""
    file = fields.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise bad_request("Invalid request: missing file parameter", "file", "missing")
    suffix = PurePath(file.filename).suffix.lower()
    if suffix not in SUFFIXES:
        raise bad_request(
            f"The supported file formats are {', '.join(SUFFIXES)}.", "file", "unsupported_format"
        )
    try:
        text = (await file.read()).decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad_request("The file is not valid UTF-8.", "file") from error
    if "\x00" in text:
        raise bad_request("The file contains the character NUL.", "file")
    return TextFile(suffix, text)


class TextFiles:
    """Translated files that can be downloaded."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def translate(self, file: TextFile, model: Served, caller: Caller) -> str:
        """Translate a file and return the name for its download."""
        options = document_options(model, format=_FORMATS[file.suffix])
        (found,) = await translate_texts(model, [file.text], options, DecodingTask(), caller)
        name = f"{secrets.token_urlsafe(18)}{file.suffix}"
        self._kept[name] = _Kept(found.best.text.encode(), time.monotonic() + _KEPT_SECONDS)
        self._drop_old()
        return name

    def response(self, name: str) -> Response:
        """Return a translated file as a download."""
        self._drop_old()
        if (found := self._kept.get(name)) is None:
            raise ApiError(404, "There is no such file; files are kept for half an hour.")
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
        }
        return Response(found.content, media_type="text/plain; charset=utf-8", headers=headers)

    def _drop_old(self) -> None:
        now = time.monotonic()
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if oldest.until > now and sum(len(one.content) for one in self._kept.values()) <= _KEPT_BYTES:
                break
            self._kept.popitem(last=False)
