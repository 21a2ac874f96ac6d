"""Runs of the studio, each with a worker process that starts when the first view needs it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError, unknown
from seqloom.serve.jobs import DecodingTask, Item, ModelSpec
from seqloom.serve.model_process import ModelProcess
from seqloom.serve.scheduler import Scheduler, SchedulerLimits

_LIMITS = SchedulerLimits(queue=256, batch_items=1)  # a document each: an obsolete one is cancelled alone
_SECONDS = 120.0  # for one document


class ViewError(Exception):
    """A view that cannot be shown because of a fault in seqloom."""


class StudioRun:
    """A run and its worker process."""

    def __init__(self, folder: Path, spec: ModelSpec) -> None:
        self.folder, self._spec = folder, spec
        self._process: ModelProcess | None = None
        self._scheduler: Scheduler | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Process id of the worker, if it runs."""
        return None if self._process is None else self._process.pid

    async def document(self, view: str, fields: Mapping[str, Any], client: str) -> str:
        """Return the document of a view as JSON text."""
        scheduler = await self._started()
        item = Item(json.dumps({"view": view, "fields": fields}))
        (output,) = await scheduler.run([item], DecodingTask(kind="view"), client=client, seconds=_SECONDS)
        if output.is_internal:
            raise ViewError(output.error)
        if output.error:
            raise SeqloomError(output.error, output.hint)
        return output.document

    async def start(self) -> None:
        """Start the worker."""
        await self._started()

    async def stop(self) -> None:
        """Stop the worker."""
        if self._scheduler is not None:
            await self._scheduler.stop()
        if self._process is not None:
            await self._process.stop()

    async def _started(self) -> Scheduler:
        async with self._starting:
            if self._scheduler is None:
                process = ModelProcess(self._spec)
                await process.start()
                self._process, self._scheduler = process, Scheduler(process, _LIMITS)
                self._scheduler.start()
        return self._scheduler


class StudioRuns:
    """All runs of the studio by name."""

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        device: str = "auto",
        threads: int | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        self.by_name: dict[str, StudioRun] = {}
        for folder in folders:
            name = _free_name(folder.resolve().name, self.by_name)
            spec = ModelSpec(name, (str(folder),), "views", device, threads, None, tuple(imports))
            self.by_name[name] = StudioRun(folder, spec)

    def of(self, name: object) -> StudioRun:
        """Return a run by its name."""
        if not isinstance(name, str) or name not in self.by_name:
            raise unknown("run", str(name)[:80], self.by_name)
        return self.by_name[name]

    async def stop(self) -> None:
        """Stop all workers."""
        await asyncio.gather(*(run.stop() for run in self.by_name.values()))


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Return the run directories among the paths, and those in folders that are not runs themselves."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(file.parent for file in path.glob("*/config.yaml"))
        if (path / "config.yaml").is_file():
            found.append(path)
        elif inside:
            found += inside
        else:
            problem = "is neither a run directory nor a folder of runs" if path.is_dir() else "does not exist"
            raise SeqloomError(f"{path} {problem}.", "give the --out of seqloom train, or the folder above it")
    return list(dict.fromkeys(found))
