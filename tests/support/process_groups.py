"""Process groups whose processes are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

from seqloom.decode.distributed import distributed
from seqloom.decode.translator import Translator
from seqloom.distributed.process_group import ProcessGroup


class ThreadGroup(ProcessGroup):
    """A process group of threads, with `broadcast` and `gather` over queues."""

    boxes: list[Queue[Any]]
    answers: list[Queue[Any]]

    def broadcast(self, value: Any) -> Any:
        if not self.is_main:
            return self.boxes[self.rank].get(timeout=60)
        for box in self.boxes[1:]:
            box.put(value)
        return value

    def gather(self, value: Any) -> list[Any]:
        if not self.is_main:
            self.answers[self.rank].put(value)
            return []
        return [value, *(box.get(timeout=60) for box in self.answers[1:])]


@contextmanager
def thread_group(size: int, make: Callable[[], Translator]) -> Iterator[Translator]:
    """Yield the translator of the main thread; each of the others serves it with its own."""
    boxes: list[Queue[Any]] = [Queue() for _ in range(size)]
    answers: list[Queue[Any]] = [Queue() for _ in range(size)]
    groups = [ThreadGroup(rank, size) for rank in range(size)]
    for group in groups:
        object.__setattr__(group, "boxes", boxes)
        object.__setattr__(group, "answers", answers)

    def serve(group: ProcessGroup) -> None:
        with distributed(make(), group) as translator:
            assert translator is None

    others = [threading.Thread(target=serve, args=(group,), daemon=True) for group in groups[1:]]
    for other in others:
        other.start()
    try:
        with distributed(make(), groups[0]) as translator:
            assert translator is not None
            yield translator
    finally:
        for other in others:
            other.join(timeout=60)
            assert not other.is_alive(), "it still waits"
