"""HTTP API of the studio: the page, the documents of views, and the progress of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from seqloom.errors import SeqloomError
from seqloom.inspect.page import VIEWS, self_contained
from seqloom.serve.jobs import Unavailable
from seqloom.studio.runs import StudioRuns, ViewError
from seqloom.studio.security import Guard, StudioAccess

_FOLDERS = (Path(__file__).parent / "static", Path(__file__).parents[1] / "inspect" / "web")
_KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
_LARGEST = 4_000_000  # bytes of a request
_POLL_SECONDS = 1.0  # between looks at metrics.jsonl


def create_app(runs: StudioRuns, access: StudioAccess, lesson: Mapping[str, Any] | None = None) -> Starlette:
    """Return the application; `lesson` is the document of a lesson, if there is one."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        first = asyncio.create_task(_start_first(runs))
        yield
        first.cancel()
        await runs.stop()

    routes = [
        Route("/", partial(_static, name="index.html")),
        Route("/static/{name}", _static),
        Route("/api/runs", partial(_runs, runs=runs, lesson=lesson)),
        Route("/api/events", partial(_events, runs=runs)),
        Route("/api/page", _page, methods=["POST"]),
        Route("/api/{view}", partial(_view, runs=runs), methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(Guard, access=access)])


async def _start_first(runs: StudioRuns) -> None:
    """Load the first run while the browser opens; an error is reported by its first view."""
    try:
        await next(iter(runs.by_name.values())).start()
    except SeqloomError:
        return


def static_files() -> dict[str, Path]:
    """Return every file of the page by its name."""
    return {file.name: file for folder in _FOLDERS for file in folder.iterdir() if file.suffix in _KINDS}


async def _static(request: Request, name: str = "") -> Response:
    file = static_files().get(name or request.path_params["name"])
    if file is None:
        return _error(404, "There is no such file.")
    return Response(file.read_bytes(), media_type=_KINDS[file.suffix])


async def _runs(request: Request, runs: StudioRuns, lesson: Mapping[str, Any] | None) -> Response:
    found = [{"name": name, "folder": str(run.folder)} for name, run in runs.by_name.items()]
    return JSONResponse({"runs": found, "lesson": dict(lesson) if lesson else None})


async def _page(request: Request) -> Response:
    """Return a document as a page that works without the studio."""
    try:
        fields = await _fields(request)
        document, state = fields.get("document"), fields.get("state")
        if not isinstance(document, dict) or document.get("view") not in VIEWS or not isinstance(state, dict):
            raise SeqloomError(
                "The request holds no document that can be saved.", "send a document and a state"
            )
        page = self_contained(document, str(fields.get("title", "")), state)
    except SeqloomError as error:
        return _error(422, error.message, error.hint)
    return Response(page, media_type="application/octet-stream")


async def _view(request: Request, runs: StudioRuns) -> Response:
    try:
        fields = await _fields(request)
        run = runs.of(fields.pop("run", None))
        document = asyncio.create_task(run.document(request.path_params["view"], fields, client="page"))
        text = await _unless_disconnected(request, document)
        return Response(text, media_type="application/json")
    except SeqloomError as error:
        return _error(422, error.message, error.hint)
    except (Unavailable, TimeoutError) as error:
        message = error.message if isinstance(error, Unavailable) else "The view took too long."
        return _error(503, message, "wait a moment")
    except ViewError as error:
        return _error(500, str(error), "see the messages in the terminal")


async def _fields(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise SeqloomError("The request is not JSON.", "use content-type: application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST:
            raise SeqloomError(f"The request is larger than {_LARGEST:,} bytes.", "use a shorter text")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SeqloomError("The request is not JSON.", "send an object") from error
    if not isinstance(fields, dict):
        raise SeqloomError("The request is not an object.", 'e.g. {"run": "mine", "text": "a"}')
    return fields


async def _unless_disconnected(request: Request, work: asyncio.Task[str]) -> str:
    """Return the result of the work; cancel it when nobody waits for it any more."""
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return ""
        return work.result()
    finally:
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(request: Request, runs: StudioRuns) -> Response:
    """Send an event whenever the metrics of a run change."""
    try:
        folder = runs.of(request.query_params.get("run")).folder
    except SeqloomError as error:
        return _error(422, error.message, error.hint)
    return StreamingResponse(_changes(folder / "metrics.jsonl"), media_type="text/event-stream")


async def _changes(file: Path) -> AsyncIterator[str]:
    before: tuple[int, int] | None = None
    while True:
        try:
            stat = file.stat()
            now = stat.st_size, stat.st_mtime_ns
        except OSError:
            now = -1, 0
        if now != before:
            yield f"data: {json.dumps({'size': now[0]})}\n\n"
            before = now
        else:
            yield ": still here\n\n"
        await asyncio.sleep(_POLL_SECONDS)


def _error(status: int, message: str, hint: str = "") -> Response:
    content: Mapping[str, str] = {"error": message, "hint": hint}
    return JSONResponse(content, status)
