"""Routes of LibreTranslate that take files and suggestions."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from seqloom.serve.bodies import Fields, check_text, key_field, read_fields, text_field
from seqloom.serve.context import Context, Route, unless_gone
from seqloom.serve.detect import detect
from seqloom.serve.errors import ApiError, bad_request, json_response
from seqloom.serve.languages import served_code
from seqloom.serve.suggestion_table import Suggestion, SuggestionTable
from seqloom.serve.text_files import TextFiles, read_file


def routes(context: Context) -> list[Route]:
    """Return the routes."""
    api = Contributions(context)
    return [
        Route("/suggest", {"POST": api.suggest}),
        Route("/translate_file", {"POST": api.translate_file}),
        Route("/download_file/{name}", {"GET": api.download}),
    ]


class Contributions:
    """Handlers of the routes."""

    def __init__(self, context: Context) -> None:
        self._context, self._files = context, TextFiles()
        path = context.config.suggestions
        self._suggestions = None if path is None else SuggestionTable(path)

    async def suggest(self, request: Request) -> Response:
        """Append a better translation to the table."""
        fields = await read_fields(request, self._context.limits)
        self._context.admit(request, key_field(fields))
        if self._suggestions is None:
            raise ApiError(403, "Suggestions are disabled on this server.", "disabled")
        values = _required(fields, "q", "s", "source", "target")
        for name, value in values.items():
            check_text(value, self._context.limits, name)
        model = self._context.models.of_pair(values["source"], values["target"])
        self._context.use(request, model, 1)
        codes = served_code(values["source"]), served_code(values["target"])
        await asyncio.to_thread(self._suggestions.append, Suggestion(values["q"], values["s"], *codes))
        return json_response({"success": True})

    async def translate_file(self, request: Request) -> Response:
        """Translate a file and return the address of the result."""
        fields = await read_fields(request, self._context.limits)
        caller = self._context.admit(request, key_field(fields))
        values, file = _required(fields, "source", "target"), await read_file(fields)
        source, target = values["source"], served_code(values["target"])
        if source.lower() == "auto":
            targets = self._context.models.targets
            found = detect(file.text, [code for code, codes in targets.items() if target in codes])
            source = found[0].language if found else source
        model = self._context.use(request, self._context.models.of_pair(source, target), 1)
        name = await unless_gone(request, self._files.translate(file, model, caller))
        return json_response({"translatedFileUrl": f"{request.base_url}download_file/{name}"})

    async def download(self, request: Request) -> Response:
        """Return a translated file."""
        return self._files.response(request.path_params["name"])


def _required(fields: Fields, *names: str) -> dict[str, str]:
    values = {name: text_field(fields, name) for name in names}
    for name, value in values.items():
        if not value.strip():
            raise bad_request(f"Invalid request: missing {name} parameter", name, "missing")
    return values
