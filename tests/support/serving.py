"""Servers for tests: with a model that copies in a thread of this process, or `seqloom serve` as it is."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.serve.app import build
from seqloom.serve.config import ServeConfig
from seqloom.serve.context import Context
from seqloom.serve.jobs import (
    BatchResult,
    DecodingTask,
    Item,
    ModelInfo,
    ModelSpec,
    Output,
    PartialOutput,
    Unavailable,
)
from seqloom.serve.model_process import ModelProcess
from seqloom.serve.server import Server, open_socket
from seqloom.types import Hypothesis
from support.commands import start_process

FIXTURES = Path(__file__).parents[1] / "golden" / "fixtures"
TRANSFORMER = str(FIXTURES / "transformer")
FAILS = "FAILS"  # source whose decoding is a fault of the server


class CopyingProcess(ModelProcess):
    """Model that copies its source in upper case, without a process; its gate stops all batches."""

    def __init__(self, spec: ModelSpec, on_restart: Callable[[], None] = lambda: None) -> None:
        super().__init__(spec, on_restart)
        self.batches: list[list[Item]] = []
        self.tasks: list[DecodingTask] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.cancelled = 0
        self.is_lost = False
        self.kind = "generate" if spec.name == "lm" else "translate"

    async def start(self) -> ModelInfo:
        """Describe the model."""
        self._info = ModelInfo(
            kind=self.kind,  # type: ignore[arg-type]
            architecture="copy",
            engine="torch",
            checkpoint="step-1",
            created=1_700_000_000,
            capabilities=("alignment", "nbest", "prefix", "required", "sampling", "token_scores"),
            beam=4,
            longest=256,
            tokenizers=f"{TRANSFORMER}/tokenizer",
            seconds_per_token=1e-6,
        )
        self._is_ready = True
        return self._info

    async def stop(self) -> None:
        """End nothing."""

    async def run(
        self,
        task: DecodingTask,
        items: Sequence[Item],
        on_partial: Callable[[PartialOutput], None] | None = None,
    ) -> BatchResult:
        """Return copies."""
        self.batches.append(list(items))
        self.tasks.append(task)
        await self.gate.wait()
        if self.is_lost:
            raise Unavailable("worker", "The model restarts.", 5.0)
        return BatchResult([_copy(task, item, on_partial) for item in items], 0.001, len(items), len(items))

    def cancel(self) -> None:
        """Count the cancellation."""
        self.cancelled += 1


def _copy(task: DecodingTask, item: Item, on_partial: Callable[[PartialOutput], None] | None) -> Output:
    if item.source == FAILS:
        return Output(error="KeyError while decoding.", is_internal=True)
    if "☃" in item.prefix:
        return Output(error="☃ is not in the target vocabulary.")
    text = item.target if task.kind == "score" else f"{item.prefix}{item.source}"
    if task.kind == "generate":
        text = f"{item.source} and so on"
    assert text is not None
    tokens = tuple(text.split())
    if on_partial is not None:
        for count in range(1, len(tokens) + 1):
            on_partial(
                PartialOutput(
                    " ".join(tokens[:count]),
                    tokens[:count],
                    provisional=task.sampling is None and task.beam != 1,
                )
            )
    count = task.sampling.samples if task.sampling else task.nbest
    probs = (*[-0.5 for _ in tokens], -0.25)
    aligned = tuple((1.0,) for _ in probs) if task.alignment else ()
    found = [
        Hypothesis(
            f"{text}{' ?' * i}", -0.5 - i, sum(probs) - i, tokens, probs, ("x",) if aligned else (), aligned
        )
        for i in range(count)
    ]
    return Output(tuple(found), "torch")


class Response(NamedTuple):
    """Response of a server."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """Body as JSON."""
        return json.loads(self.body)


def events(found: Response) -> list[Any]:
    """Return the server-sent events of a response, without the end."""
    parts = found.body.decode().split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""] and found.headers["content-type"].startswith("text/event-stream")
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


@dataclass
class Client:
    """HTTP client of a server on loopback."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            found = connection.getresponse()
            return Response(found.status, found.read(), {k.lower(): v for k, v in found.getheaders()})
        finally:
            connection.close()

    def get(self, path: str) -> Response:
        """Send a GET request."""
        return self.request("GET", path)

    def post(self, path: str, value: object, **headers: str) -> Response:
        """Send a value as JSON."""
        kind = {"Content-Type": "application/json"}
        return self.request("POST", path, json.dumps(value).encode(), {**kind, **headers})

    def form(self, path: str, **values: object) -> Response:
        """Send a form."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.request("POST", path, urllib.parse.urlencode(values, doseq=True).encode(), kind)


@dataclass
class TestServer(Client):
    """Server in a thread of this process."""

    __test__ = False
    context: Context = field(init=False)
    loop: asyncio.AbstractEventLoop = field(init=False)
    server: Server = field(init=False)

    def process(self, name: str = "en-de") -> CopyingProcess:
        """Process of a model."""
        found = self.context.models.all[name].process
        assert isinstance(found, CopyingProcess)
        return found

    def call(self, function: Callable[[], object]) -> None:
        """Run a function in the thread of the server."""
        done = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (function(), done.set()))
        assert done.wait(10)


@contextmanager
def copying_server(models: Sequence[str] = ("en-de", "de-en", "lm"), **options: Any) -> Iterator[TestServer]:
    """Serve models that copy, with the options of `ServeConfig`, until the block ends."""
    folders = dict.fromkeys(models, (TRANSFORMER,))
    config = ServeConfig.compose(None, {"models": folders, "port": 0, **options})
    listener, started = open_socket(config.host, config.port), threading.Event()
    found = TestServer(listener.getsockname()[1])

    async def run() -> None:
        app, found.context = build(config, new_process=CopyingProcess)
        found.loop, found.server = asyncio.get_running_loop(), Server(app, found.context, listener)
        serving = asyncio.create_task(found.server.run(handle_signals=False))
        while found.context.models.waiting_for or not found.server.started:
            await asyncio.sleep(0.005)
        started.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert started.wait(20), "the server does not start"
    try:
        yield found
    finally:
        found.loop.call_soon_threadsafe(found.server.stop)
        thread.join(20)
        listener.close()
        assert not thread.is_alive(), "the server does not stop"


@dataclass
class ServeProcess(Client):
    """The command `seqloom serve`."""

    process: subprocess.Popen[str] = field(init=False)
    lines: list[dict[str, Any]] = field(default_factory=list)  # its log

    def logged(self, message: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for log lines with this message, and return them."""
        for _ in range(6000):
            found = [line for line in self.lines if line["message"] == message]
            if len(found) >= count or self.process.poll() is not None:
                return found
            time.sleep(0.02)
        raise AssertionError(f"the server does not log {message!r}")


@contextmanager
def serve_process(*arguments: object) -> Iterator[ServeProcess]:
    """Run `seqloom serve` on a free port until the block ends."""
    found = ServeProcess(0)
    process = start_process(
        "serve", *arguments, "--port", 0, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    found.process, errors = process, process.stderr
    assert errors is not None
    reader = threading.Thread(
        target=lambda: found.lines.extend(json.loads(line) for line in errors if line.startswith("{")),
        daemon=True,
    )
    reader.start()
    try:
        (listening,) = found.logged("listening")
        found.port = int(listening["url"].rpartition(":")[2])
        yield found
    finally:
        process.terminate()
        try:
            process.wait(40)
        finally:
            process.kill()
        reader.join(10)
