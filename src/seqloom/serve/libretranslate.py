"""The API of LibreTranslate 1.9.6: its clients work unchanged.

Every POST route accepts JSON, a form, multipart and the query string; unknown fields are ignored, and numbers
may be texts. Errors are {"error": "..."}.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from seqloom.document.formats import FORMATS
from seqloom.serve.bodies import Fields, check_text, key_field, number_field, read_fields, text_field
from seqloom.serve.context import Context, Route, unless_gone
from seqloom.serve.detect import Detected, detect
from seqloom.serve.errors import bad_request, json_response
from seqloom.serve.jobs import DecodingTask
from seqloom.serve.languages import language_name, served_code
from seqloom.serve.models import Served
from seqloom.serve.options import document_options
from seqloom.serve.schema import api_schema
from seqloom.serve.text_files import SUFFIXES
from seqloom.serve.translation import Caller, TranslatedText, translate_texts

_FORMATS = tuple(format for format in ("text", "html") if format in FORMATS)
_AUTO = "auto"


class _Asked(NamedTuple):
    """Fields of /translate."""

    texts: list[str]
    is_list: bool
    source: str
    target: str
    format: str
    alternatives: int


class _Part(NamedTuple):
    """Texts of a request with the same source language."""

    places: list[int]
    model: Served | None  # None: the texts are in the target language already


def routes(context: Context) -> list[Route]:
    """Return the routes."""
    api = LibreTranslate(context)
    return [
        Route("/translate", {"POST": api.translate}),
        Route("/detect", {"POST": api.detect}),
        Route("/languages", {"GET": api.languages}),
        Route("/frontend/settings", {"GET": api.settings}),
        Route("/spec", {"GET": api.spec}),
        Route("/", {"GET": api.root}),
    ]


class LibreTranslate:
    """Handlers of the routes."""

    def __init__(self, context: Context) -> None:
        self._context, self._limits = context, context.limits

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts."""
        fields = await read_fields(request, self._limits)
        caller = self._context.admit(request, key_field(fields))
        asked = self._asked(fields)
        detected, parts = await self._parts(asked)
        for part in parts:
            if part.model is not None:
                self._context.use(request, part.model, len(asked.texts))
        groups = await unless_gone(request, self._translate_parts(parts, asked, caller))
        found: list[TranslatedText | None] = [None] * len(asked.texts)
        for part, results in zip(parts, groups, strict=True):
            for place, result in zip(part.places, results, strict=True):
                found[place] = result
        return json_response(_translated(asked, found, detected))

    def _asked(self, fields: Fields) -> _Asked:
        texts, is_list = self._texts(fields)
        for name in ("source", "target"):
            if not text_field(fields, name):
                raise bad_request(f"Invalid request: missing {name} parameter", name, "missing")
        format = text_field(fields, "format", "text") or "text"
        if format not in _FORMATS:
            raise bad_request(f"{format[:50]} format is not supported", "format")
        alternatives = number_field(fields, "alternatives", 0, self._limits.beam)
        source, target = text_field(fields, "source").lower(), text_field(fields, "target")
        asked_source = _AUTO if source == _AUTO else served_code(source)
        return _Asked(texts, is_list, asked_source, served_code(target), format, alternatives)

    def _texts(self, fields: Fields) -> tuple[list[str], bool]:
        value = fields.get("q")
        texts = value if isinstance(value, list) else [text_field(fields, "q")]
        if not texts or (not isinstance(value, list) and not texts[0]):
            raise bad_request("Invalid request: missing q parameter", "q", "missing")
        if len(texts) > self._limits.texts:
            raise bad_request(
                f"{len(texts):,} texts; the limit is {self._limits.texts:,}.", "q", "too_many_texts"
            )
        for text in texts:
            if not isinstance(text, str):
                raise bad_request("q must be a text or a list of texts.", "q")
            check_text(text, self._limits, "q")
        return texts, isinstance(value, list)

    async def _parts(self, asked: _Asked) -> tuple[list[Detected], list[_Part]]:
        """Group the texts by source language, and find the model of each group."""
        everything = list(range(len(asked.texts)))
        if asked.source != _AUTO:
            return [], [_Part(everything, self._model(asked.source, asked.target))]
        sources = [one for one, targets in self._context.models.targets.items() if asked.target in targets]
        if not sources:
            raise self._context.models.unsupported(asked.target, "target")
        languages = {*sources, asked.target}
        detected = await asyncio.to_thread(lambda: [detect(text, languages)[0] for text in asked.texts])
        places: dict[str, list[int]] = {}
        for place, one in enumerate(detected):
            places.setdefault(one.language, []).append(place)
        return detected, [_Part(own, self._model(code, asked.target)) for code, own in places.items()]

    def _model(self, source: str, target: str) -> Served | None:
        if source == target and source in self._known_languages():
            return None
        return self._context.models.of_pair(source, target)

    def _known_languages(self) -> set[str]:
        targets = self._context.models.targets
        return {*targets, *(code for codes in targets.values() for code in codes)}

    async def _translate_parts(
        self, parts: Sequence[_Part], asked: _Asked, caller: Caller
    ) -> list[Sequence[TranslatedText | None]]:
        if len(parts) == 1:
            return [await self._translate_part(parts[0], asked, caller)]
        tasks = [asyncio.create_task(self._translate_part(part, asked, caller)) for part in parts]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # if one part fails
                task.cancel()

    async def _translate_part(
        self, part: _Part, asked: _Asked, caller: Caller
    ) -> Sequence[TranslatedText | None]:
        if part.model is None:
            return [None] * len(part.places)
        nbest = asked.alternatives + 1
        if nbest > 1 and "nbest" not in part.model.info.capabilities:
            raise bad_request("This model has no alternatives.", "alternatives", "unsupported")
        beam = max(nbest, part.model.info.beam) if nbest > 1 else None
        options = document_options(part.model, format=asked.format)
        texts = [asked.texts[place] for place in part.places]
        return await translate_texts(part.model, texts, options, DecodingTask(beam=beam, nbest=nbest), caller)

    async def detect(self, request: Request) -> Response:
        """Return the possible languages of a text."""
        fields = await read_fields(request, self._limits)
        self._context.admit(request, key_field(fields))
        texts, is_list = self._texts(fields)
        if is_list:
            raise bad_request("q must be a text.", "q")
        found = await asyncio.to_thread(detect, texts[0], self._known_languages())
        likely = [one for one in found if one.confidence >= 1] or found[:1]
        return json_response([one.as_json() for one in likely])

    async def languages(self, request: Request) -> Response:
        """Return the languages with their possible targets."""
        found = self._context.models.targets
        codes = sorted(self._known_languages())
        names = {code: language_name(code) for code in codes}
        return json_response(
            [{"code": code, "name": names[code], "targets": found.get(code, [])} for code in codes]
        )

    async def settings(self, request: Request) -> Response:
        """Return what the web page of LibreTranslate asks for."""
        pairs = self._context.models.targets
        first = next(iter(pairs), "en")
        second = next(iter(pairs.get(first, [])), first)
        language = {
            side: {"code": code, "name": language_name(code)}
            for side, code in (("source", first), ("target", second))
        }
        keys = self._context.access.keys.required
        return json_response(
            {
                "apiKeys": keys,
                "charLimit": self._limits.characters,
                "filesTranslation": True,
                "frontendTimeout": 500,
                "keyRequired": keys,
                "language": language,
                "suggestions": self._context.config.suggestions is not None,
                "supportedFilesFormat": list(SUFFIXES),
            }
        )

    async def spec(self, request: Request) -> Response:
        """Return the OpenAPI document."""
        return json_response(api_schema())

    async def root(self, request: Request) -> Response:
        """Redirect to the list of languages."""
        return RedirectResponse("/languages")


def _translated(
    asked: _Asked, found: Sequence[TranslatedText | None], detected: Sequence[Detected]
) -> dict[str, object]:
    """Return the response of /translate; a text in the target language comes back unchanged."""
    texts = [
        text if result is None else result.best.text for text, result in zip(asked.texts, found, strict=True)
    ]
    values: dict[str, Sequence[object]] = {"translatedText": texts}
    if detected:
        values["detectedLanguage"] = [one.as_json() for one in detected]
    if asked.alternatives:
        values["alternatives"] = [
            [] if result is None else [one.text for one in result.results[1:]] for result in found
        ]
    return dict(values) if asked.is_list else {name: value[0] for name, value in values.items()}
