"""Routes for operators: liveness, readiness and metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from seqloom.serve.context import Context, Route
from seqloom.serve.errors import json_response
from seqloom.serve.metrics import CONTENT_TYPE


def routes(context: Context) -> list[Route]:
    """Return the routes."""

    async def health(request: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(request: Request) -> Response:
        if reason := _why_not_ready(context):
            return json_response({"status": "not ready", "reason": reason}, 503, {"Retry-After": "5"})
        return json_response({"status": "ready"})

    async def metrics(request: Request) -> Response:
        return Response(context.metrics.page(), media_type=CONTENT_TYPE)

    return [
        *(Route(path, {"GET": health}) for path in ("/health", "/livez")),
        *(Route(path, {"GET": ready}) for path in ("/ready", "/readyz")),
        Route("/metrics", {"GET": metrics}),
    ]


def _why_not_ready(context: Context) -> str:
    if context.is_draining:
        return "the server stops"
    names = context.models.waiting_for
    return f"not loaded: {', '.join(names)}" if names else ""
