"""Translation by several processes: requests are sharded, and their outputs are returned in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.pipeline import Progress
from seqloom.decode.translator import Capability, Outputs, Translator
from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.types import Request


@dataclass(frozen=True)
class _Task:
    """Work that the main process sends to all processes."""

    requests: list[Request]
    search: SearchConfig
    sampling: SamplingConfig | None
    alignment: bool = False
    expand: int | None = None  # hypotheses of an exact search

    def shard(self, places: Sequence[int]) -> _Task:
        """Return the task for the requests at these positions."""
        return replace(self, requests=[self.requests[i] for i in places])

    def run(self, translator: Translator, on_progress: Progress | None = None) -> Outputs | SeqloomError:
        """Return the outputs, or an error for the main process to raise."""
        if not self.requests:
            return []
        try:
            searching = translator.with_search(self.search.model_dump())
            if self.expand is not None:
                return searching.exact(self.requests, expand=self.expand, on_progress=on_progress)
            if self.sampling is None:
                return translator.translate(
                    self.requests, self.search, alignment=self.alignment, on_progress=on_progress
                )
            return searching.sample(self.requests, self.sampling, on_progress=on_progress)
        except SeqloomError as error:
            return error


class DistributedTranslator(Translator):
    """Translator that shards requests over the processes of a group, which all hold the same translator.

    The output for a request does not depend on other requests, so it equals that of a single process.
    """

    def __init__(self, translator: Translator, group: ProcessGroup) -> None:
        super().__init__(translator.search, length_ratio=translator.length_ratio)
        self._translator, self._group = translator, group
        self.engine = translator.engine
        self.description, self.alternative = translator.description, translator.alternative

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._translator.capabilities

    @property
    def search(self) -> SearchConfig:
        return self._translator.search

    def with_search(self, options: Mapping[str, Any]) -> Self:
        """Return a translator with these search options changed by the translator of each process."""
        changed = copy(self)
        changed._translator = self._translator.with_search(options)
        return changed

    def check(self, search: SearchConfig, needs: AbstractSet[Capability] = frozenset()) -> None:
        self._translator.check(search, needs)

    def can_generate(self, text: str) -> bool:
        return self._translator.can_generate(text)

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        return self._run(_Task(requests, search, None, alignment), on_progress)

    def _sample(self, requests: list[Request], options: SamplingConfig, *, on_progress: Progress) -> Outputs:
        return self._run(_Task(requests, self.search, options), on_progress)

    def _exact(self, requests: list[Request], expand: int, *, on_progress: Progress) -> Outputs:
        return self._run(_Task(requests, self.search, None, expand=expand), on_progress)

    def _run(self, task: _Task, on_progress: Progress) -> Outputs:
        self._group.broadcast(task)
        shards = shard_by_length([request.source for request in task.requests], self._group.size)
        own = task.shard(shards[0]).run(self._translator, on_progress)
        outputs: Outputs = [[] for _ in task.requests]
        for places, found in zip(shards, self._group.gather(own), strict=True):
            if isinstance(found, SeqloomError):
                raise found
            for place, hypotheses in zip(places, found, strict=True):
                outputs[place] = hypotheses
        on_progress(len(task.requests) - len(shards[0]))
        return outputs


def shard_by_length(lines: Sequence[str], size: int) -> list[list[int]]:
    """Return the positions of each process's lines, dealt out by length so that all have equal work."""
    order = sorted(range(len(lines)), key=lambda place: -len(lines[place]))
    return [order[rank::size] for rank in range(size)]


@contextmanager
def distributed(translator: Translator, group: ProcessGroup) -> Iterator[Translator | None]:
    """Yield a translator in the main process; the others work for it, and get None when it is done."""
    if group.size == 1:
        yield translator
    elif group.is_main:
        try:
            yield DistributedTranslator(translator, group)
        finally:
            group.broadcast(None)
    else:
        task: _Task | None = None
        while (task := group.broadcast(task)) is not None:
            shards = shard_by_length([request.source for request in task.requests], group.size)
            group.gather(task.shard(shards[group.rank]).run(translator))
        yield None
