"""A model in its own process: started, warmed, restarted when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.serve import frames
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

_STUCK_SECONDS = 300  # a worker that is silent for so long is killed
_PAUSES = (0.1, 1.0, 2.0, 5.0)  # seconds before each attempt to restart; the last one is repeated

log = logging.getLogger(__name__)


class ModelProcess:
    """Runs batches in a worker process; implements `scheduler.BatchRunner`."""

    def __init__(self, spec: ModelSpec, on_restart: Callable[[], None] = lambda: None) -> None:
        self.spec, self._on_restart = spec, on_restart
        self._process: asyncio.subprocess.Process | None = None
        self._info: ModelInfo | None = None
        self._is_ready = False
        self._number = 0
        self._result: asyncio.Future[dict[str, Any]] | None = None
        self._on_partial: Callable[[PartialOutput], None] | None = None
        self._is_provisional = False
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def info(self) -> ModelInfo:
        """Description of the model, available once it was started."""
        assert self._info is not None, "the process is not started"
        return self._info

    @property
    def is_ready(self) -> bool:
        """Whether the process accepts a batch."""
        return self._is_ready

    @property
    def pid(self) -> int | None:
        """Process id, if there is a process."""
        return None if self._process is None else self._process.pid

    @property
    def default_beam(self) -> int:
        """Beam of the run's configuration."""
        return self.info.beam

    @property
    def seconds_per_token(self) -> float:
        """Speed measured when the model was warmed."""
        return self.info.seconds_per_token

    async def start(self) -> ModelInfo:
        """Load and warm the model; raise SeqloomError if that fails."""
        try:
            reader = await self._launch()
        except asyncio.IncompleteReadError as error:
            raise SeqloomError(
                f"The worker of {self.spec.name} ended while it loaded the model.", "see its messages above"
            ) from error
        self._supervisor = asyncio.create_task(self._supervise(reader))
        return self.info

    async def stop(self) -> None:
        """End the process."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        self._lose()
        await self._kill()

    async def run(
        self,
        task: DecodingTask,
        items: Sequence[Item],
        on_partial: Callable[[PartialOutput], None] | None = None,
    ) -> BatchResult:
        """Return the outputs of a batch; one at a time."""
        process = self._process
        if not self._is_ready or process is None or process.stdin is None:
            raise Unavailable("worker", f"The model {self.spec.name} restarts.", 5.0)
        assert self._result is None, "a worker decodes one batch at a time"
        self._number += 1
        self._on_partial, self._is_provisional = on_partial, task.sampling is None and task.beam != 1
        self._result = asyncio.get_running_loop().create_future()
        message = {"batch": self._number, "task": task.model_dump(), "items": [one.as_json() for one in items]}
        try:
            process.stdin.write(frames.pack(message))
            await process.stdin.drain()
            async with asyncio.timeout(_STUCK_SECONDS):
                reply = await self._result
        except (OSError, TimeoutError) as error:
            process.kill()
            raise Unavailable("worker", f"The model {self.spec.name} restarts.", 5.0) from error
        finally:
            self._result = self._on_partial = None
        outputs = [Output.from_json(values) for values in reply["outputs"]]
        return BatchResult(outputs, reply["seconds"], reply["source_tokens"], reply["target_tokens"])

    def cancel(self) -> None:
        """Stop the running batch at its next step, if its engine can."""
        if self._is_ready and self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(frames.pack({"cancel": self._number}))

    async def _launch(self) -> asyncio.StreamReader:
        """Start a process and wait until its model is warm."""
        arguments = [sys.executable, "-m", "seqloom.serve.worker", json.dumps(self.spec._asdict())]
        pipe = asyncio.subprocess.PIPE
        # A new session: Ctrl-C in a terminal reaches the server alone, which ends its workers.
        self._process = await asyncio.create_subprocess_exec(
            *arguments, stdin=pipe, stdout=pipe, start_new_session=True
        )
        reader = self._process.stdout
        assert reader is not None
        try:
            reply = await frames.receive(reader)
        except BaseException:
            await self._kill()
            raise
        if "failed" in reply:
            await self._kill()
            raise SeqloomError(reply["failed"], reply["hint"])
        self._info = ModelInfo.model_validate(reply["ready"])
        self._is_ready = True
        return reader

    async def _supervise(self, reader: asyncio.StreamReader) -> None:
        """Read replies; when the process dies, refuse its batch and start it again."""
        while True:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                while True:
                    self._receive(await frames.receive(reader))
            self._lose()
            await self._kill()
            reader = await self._restart()

    async def _restart(self) -> asyncio.StreamReader:
        attempt = 0
        while True:
            await asyncio.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1
            log.warning("worker restarts", extra={"model": self.spec.name, "attempt": attempt})
            self._on_restart()
            try:
                return await self._launch()
            except (SeqloomError, asyncio.IncompleteReadError, OSError) as error:
                log.error("worker does not start", extra={"model": self.spec.name, "reason": str(error)})

    def _receive(self, reply: dict[str, Any]) -> None:
        if reply["batch"] != self._number or self._result is None or self._result.done():
            return
        if "outputs" in reply:
            self._result.set_result(reply)
        elif self._on_partial is not None:
            self._on_partial(PartialOutput(reply["text"], tuple(reply["tokens"]), self._is_provisional))

    def _lose(self) -> None:
        """Refuse the running batch."""
        self._is_ready = False
        if self._result is not None and not self._result.done():
            self._result.set_exception(Unavailable("worker", f"The model {self.spec.name} restarts.", 5.0))

    async def _kill(self) -> None:
        self._is_ready = False
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
