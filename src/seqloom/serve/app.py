"""The ASGI application: routes, errors, request ids, metrics and the log of requests."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqloom.errors import SeqloomError
from seqloom.serve import contributions, libretranslate, openai_api, operations, own_api
from seqloom.serve.config import ServeConfig
from seqloom.serve.context import ClientGone, Context, RequestInfo, Route, attach
from seqloom.serve.errors import ApiError
from seqloom.serve.keys import ApiKeys, ClientAccess
from seqloom.serve.metrics import Metrics
from seqloom.serve.model_process import ModelProcess
from seqloom.serve.models import Models, NewProcess
from seqloom.serve.shadow import Shadow

log = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[\w.-]{1,64}")
_CLIENT_GONE = 499  # in the log and the metrics; nobody receives it
_QUIET = ("/health", "/livez", "/ready", "/readyz", "/metrics")


def build(
    config: ServeConfig, imports: tuple[str, ...] = (), new_process: NewProcess = ModelProcess
) -> tuple[ASGIApp, Context]:
    """Return the application of a configuration, and what its handlers share."""
    metrics = Metrics()
    models = Models(config, config.specs(imports), metrics, new_process)
    access = ClientAccess(ApiKeys(config.api_keys), config.limits.requests_per_minute)
    shadow = Shadow(config, metrics, new_process, imports) if config.shadow else None
    context = Context(config, models, access, metrics, shadow=shadow)
    apis = (operations, libretranslate, contributions, own_api, openai_api)
    app: ASGIApp = Application(context, [route for api in apis for route in api.routes(context)])
    if config.cors:
        app = CORSMiddleware(app, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    return app, context


class Application:
    """ASGI application. A failure of a handler is an error with code 500, never a lost connection."""

    def __init__(self, context: Context, routes: Sequence[Route]) -> None:
        self._context = context
        self._routes = {route.path: route for route in routes if "{" not in route.path}
        self._patterns = [(_pattern(route.path), route) for route in routes if "{" in route.path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Start and stop the models, for servers that run the application without `Server`."""
        await receive()
        try:
            await self._context.start()
        except SeqloomError as error:
            await self._context.stop()
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._context.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, info, started = Request(scope, receive), RequestInfo(), time.perf_counter()
        given = request.headers.get("x-request-id", "")
        info.id = given if _REQUEST_ID.fullmatch(given) else info.id
        attach(scope, info)
        status, reason = 500, ""

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", info.id.encode())]
            await send(message)

        self._context.active += 1
        try:
            response = await self._respond(request, info)
            reason = getattr(response, "reason", "")
            await response(scope, receive, send_with_id)
        except ClientGone:
            status = _CLIENT_GONE
        except asyncio.CancelledError:
            status = _CLIENT_GONE
            raise
        except OSError:  # the connection was lost while the response was sent
            status = _CLIENT_GONE
        finally:
            self._context.active -= 1
            self._record(request, info, status, reason, time.perf_counter() - started)

    async def _respond(self, request: Request, info: RequestInfo) -> Response:
        route, values = self._find(request.url.path)
        form = route.form if route else "object" if request.url.path.startswith("/v1/") else "text"
        try:
            if route is None:
                raise ApiError(404, "There is no such route.", "not_found")
            info.route = route.path
            request.scope["path_params"] = values
            method = "GET" if request.method == "HEAD" else request.method
            handler = route.handlers.get(method)
            if handler is None:
                raise ApiError(405, f"The methods of this route are {', '.join(route.handlers)}.")
            return await handler(request)
        except ApiError as error:
            if error.status in (408, 413, 429, 503, 504):
                self._context.metrics.refused.labels(error.code).inc()
            response = error.response(form)
            response.reason = error.code  # type: ignore[attr-defined]
            if error.status == 405 and route is not None:
                response.headers["Allow"] = ", ".join(route.handlers)
            return response
        except (ClientGone, asyncio.CancelledError):
            raise
        except Exception as error:
            # Only the places: a message may quote the text of the request.
            places = traceback.format_list(traceback.extract_tb(error.__traceback__))
            log.error(
                "internal error",
                extra={"request": info.id, "error": type(error).__name__, "trace": "".join(places)},
            )
            return ApiError(500, "Internal error.", "internal_error").response(form)

    def _find(self, path: str) -> tuple[Route | None, dict[str, str]]:
        if (route := self._routes.get(path)) is not None:
            return route, {}
        for pattern, route in self._patterns:
            if match := pattern.fullmatch(path):
                return route, match.groupdict()
        return None, {}

    def _record(self, request: Request, info: RequestInfo, status: int, reason: str, seconds: float) -> None:
        metrics = self._context.metrics
        metrics.requests.labels(info.route, info.model, str(status)).inc()
        metrics.request_seconds.labels(info.route).observe(seconds)
        if info.route in _QUIET and status < 500:
            return
        values: dict[str, object] = {
            "request": info.id,
            "method": request.method if len(request.method) < 10 else "other",
            "route": info.route,
            "code": status,
            "ms": round(1000 * seconds, 1),
        }
        optional = {"model": info.model, "texts": info.texts, "reason": reason}
        log.info("request", extra=values | {name: value for name, value in optional.items() if value})


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
