"""What the handlers of all routes share."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from seqloom.serve.config import RequestLimits, ServeConfig
from seqloom.serve.detect import identifier
from seqloom.serve.errors import ApiError, ErrorForm
from seqloom.serve.keys import ClientAccess
from seqloom.serve.metrics import Metrics
from seqloom.serve.models import Models, Served
from seqloom.serve.shadow import Shadow
from seqloom.serve.translation import Caller

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
_KEY = "seqloom"


class Route(NamedTuple):
    """Handlers of a path, by method, and the form of its errors."""

    path: str
    handlers: dict[str, Handler]
    form: ErrorForm = "text"


@dataclass(slots=True)
class RequestInfo:
    """Facts about a request for the log and the metrics."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    route: str = "other"
    model: str = ""
    texts: int = 0


def info_of(request: Request) -> RequestInfo:
    """Return the facts about a request."""
    found: RequestInfo = request.scope[_KEY]
    return found


def attach(scope: Any, info: RequestInfo) -> None:
    """Store the facts about a request in its scope."""
    scope[_KEY] = info


class ClientGone(Exception):
    """The client has closed the connection."""


@dataclass(slots=True)
class Context:
    """Configuration, models, access and metrics of a server."""

    config: ServeConfig
    models: Models
    access: ClientAccess
    metrics: Metrics
    is_draining: bool = False
    shadow: Shadow | None = None
    active: int = 0  # requests that are being processed

    @property
    def limits(self) -> RequestLimits:
        """Limits on requests."""
        return self.config.limits

    async def start(self) -> None:
        """Load the models; raise SeqloomError if one of them cannot be loaded."""
        detector = asyncio.create_task(asyncio.to_thread(identifier))  # takes a second, as the models do
        await self.models.start()
        if self.shadow is not None:
            await self.shadow.start(next(iter(self.models.all.values())))
        await detector

    async def stop(self) -> None:
        """Stop the models."""
        if self.shadow is not None:
            await self.shadow.stop()
        await self.models.stop()

    def admit(self, request: Request, key: str = "") -> Caller:
        """Return the caller of a request; raise if it may not be processed."""
        client = self.access.client(request, key)
        if self.is_draining:
            raise ApiError(503, "The server stops.", "draining", retry_after=5.0)
        return Caller.new(client, self.limits.seconds)

    def use(self, request: Request, model: Served, texts: int) -> Served:
        """Note the model and the number of texts for the log and the metrics."""
        info = info_of(request)
        info.model, info.texts = model.name, texts
        return model


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; cancel it if the client closes the connection."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
