"""Server-sent events: a producer sends events while it works, and a response passes them on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from starlette.responses import Response, StreamingResponse

from seqloom.serve.errors import ApiError
from seqloom.strict_json import json_text

Send = Callable[[object], None]
_END = object()


async def event_response(produce: Callable[[Send], Awaitable[None]]) -> Response:
    """Return a response with the events of a producer, and [DONE] at the end.

    An error before the first event is an error of the request; a later one is the last event.
    """
    events: asyncio.Queue[object] = asyncio.Queue()
    task = asyncio.ensure_future(_run(produce, events))
    first = await events.get()
    if isinstance(first, Exception):
        raise first
    return StreamingResponse(
        _passed_on(first, events, task),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def _run(produce: Callable[[Send], Awaitable[None]], events: asyncio.Queue[object]) -> None:
    try:
        await produce(events.put_nowait)
    except Exception as error:
        events.put_nowait(error)
    finally:
        events.put_nowait(_END)


async def _passed_on(
    first: object, events: asyncio.Queue[object], task: asyncio.Future[None]
) -> AsyncIterator[bytes]:
    try:
        event = first
        while event is not _END:
            if isinstance(event, Exception):
                failure = event if isinstance(event, ApiError) else ApiError(500, "Internal error.")
                event = failure.as_object()
            yield _event(json_text(event))
            event = await events.get()
        yield _event("[DONE]")
    finally:  # also if the client is gone
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()
