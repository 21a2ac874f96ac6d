"""Shadow: a second model translates a part of the traffic, and a page shows where they disagree."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from seqloom.errors import SeqloomError
from seqloom.files import write_atomically
from seqloom.serve.config import ServeConfig
from seqloom.serve.jobs import DecodingTask, Item, ModelSpec, Output, Unavailable
from seqloom.serve.metrics import Metrics
from seqloom.serve.model_process import ModelProcess
from seqloom.serve.models import NewProcess, Served

_SHOWN = 200  # newest disagreements on the page
_WAITING = 64  # sentences; what does not fit is not compared
_SECONDS = 60.0
_WRITE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Disagreement(NamedTuple):
    """A source with two different outputs."""

    source: str
    served: str
    shadow: str


class Shadow:
    """A model that translates a part of what another model has translated."""

    def __init__(
        self,
        config: ServeConfig,
        metrics: Metrics,
        new_process: NewProcess = ModelProcess,
        imports: tuple[str, ...] = (),
    ) -> None:
        assert config.shadow is not None
        spec = ModelSpec(
            "shadow", (config.shadow,), config.engine, config.device, config.threads, imports=imports
        )
        limits = config.limits.model_copy(update={"queue": _WAITING})
        self._model = Served(spec, config.model_copy(update={"limits": limits}), metrics, new_process)
        self._share, self._path = config.shadow_share, Path(config.shadow_report)
        self._draw = random.Random()
        self._found: deque[Disagreement] = deque(maxlen=_SHOWN)
        self._compared = self._different = 0
        self._written = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, served: Served) -> None:
        """Load the model, and compare its outputs with those of the served one from then on."""
        try:
            await self._model.start()
        except SeqloomError as error:
            raise SeqloomError(f"The shadow model cannot be loaded: {error.message}", error.hint) from error
        served.on_translated = self.offer

    async def stop(self) -> None:
        """Stop, and write the page."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._model.stop()
        if self._compared:
            self._write()

    def offer(self, task: DecodingTask, items: Sequence[Item], outputs: Sequence[Output]) -> None:
        """Compare the outputs of a request, or not: the share of requests is drawn."""
        if task.sampling is None and self._model.is_ready and self._draw.random() < self._share:
            work = asyncio.create_task(self._compare(task, items, outputs))
            self._tasks.add(work)
            work.add_done_callback(self._tasks.discard)

    async def _compare(self, task: DecodingTask, items: Sequence[Item], outputs: Sequence[Output]) -> None:
        plain = DecodingTask(beam=task.beam, forbid=task.forbid, max_length=task.max_length)
        try:
            own = await self._model.scheduler.run(items, plain, client="shadow", seconds=_SECONDS)
        except (Unavailable, TimeoutError):
            return
        for item, served, shadow in zip(items, outputs, own, strict=True):
            if served.hypotheses and shadow.hypotheses:
                self._compared += 1
                texts = served.hypotheses[0].text, shadow.hypotheses[0].text
                if texts[0] != texts[1]:
                    self._different += 1
                    self._found.appendleft(Disagreement(item.source, *texts))
        if time.monotonic() - self._written > _WRITE_SECONDS:
            self._written = time.monotonic()
            await asyncio.to_thread(self._write)

    def _write(self) -> None:
        try:
            write_atomically(self._path, self._page())
        except OSError as error:
            log.error("page of the shadow model is not written", extra={"reason": error.strerror})

    def _page(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(one.source)}<td>{escape(one.served)}<td>{escape(one.shadow)}\n"
            for one in tuple(self._found)
        )
        share = 100 * self._different / max(1, self._compared)
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Shadow</title>\n'
            "<style>body{font-family:sans-serif;margin:2em}td,th{text-align:left;padding:.4em;"
            "vertical-align:top;border-top:1px solid #ccc}</style>\n"
            f"<h1>{self._different:,} of {self._compared:,} segments differ ({share:.1f} %)</h1>\n"
            f"<p>The newest {_SHOWN} disagreements with {escape(self._model.spec.folders[0])}.</p>\n"
            f"<table><tr><th>source<th>served<th>shadow\n{rows}</table></html>\n"
        )
