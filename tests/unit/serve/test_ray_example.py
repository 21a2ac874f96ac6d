"""The example for Ray Serve: its application without Ray, and the lifespan by which Ray starts the models."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from seqloom.errors import SeqloomError
from seqloom.serve.app import build
from seqloom.serve.config import ServeConfig
from seqloom.serve.jobs import ModelInfo
from support.serving import TRANSFORMER, CopyingProcess

EXAMPLE = Path(__file__).parents[3] / "examples" / "ray_serve.py"


@pytest.fixture
def application() -> Callable[..., ASGIApp]:
    """The function of the example that returns the application."""
    spec = importlib.util.spec_from_file_location("ray_serve", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., ASGIApp] = module.application
    return found


def call(app: ASGIApp, scope: dict[str, Any], received: list[dict[str, Any]]) -> list[Any]:
    """Return the messages that an application sends for these received messages."""
    sent: list[Any] = []

    async def receive() -> Any:
        return received.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent


def test_the_application_needs_no_ray(application: Callable[..., ASGIApp]) -> None:
    app = application([f"en-de={TRANSFORMER}"])
    scope = {"type": "http", "method": "GET", "path": "/ready", "headers": [], "query_string": b""}
    assert call(app, scope, [])[0]["status"] == 503  # the models start with the lifespan
    with pytest.raises(SeqloomError, match="not a run directory"):
        application(["en-de=runs/missing"])


class FailingProcess(CopyingProcess):
    async def start(self) -> ModelInfo:
        raise SeqloomError("The run is damaged.")


@pytest.mark.parametrize(
    ("process", "answers"),
    [
        (CopyingProcess, ["lifespan.startup.complete", "lifespan.shutdown.complete"]),
        (FailingProcess, ["lifespan.startup.failed"]),
    ],
)
def test_the_lifespan_starts_and_stops_the_models(process: Any, answers: list[str]) -> None:
    config = ServeConfig.compose(None, {"models": {"en-de": (TRANSFORMER,)}})
    app, _ = build(config, new_process=process)
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    assert [one["type"] for one in call(app, {"type": "lifespan"}, messages)] == answers
