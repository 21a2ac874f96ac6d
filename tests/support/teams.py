"""Teams whose processes are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

from seqloom.decode.distributed import distributed
from seqloom.decode.translator import Translator
from seqloom.team import Team


class Threads(Team):
    """A team whose processes are threads: what `told` and `gathered` promise, by queues."""

    boxes: list[Queue[Any]]
    answers: list[Queue[Any]]

    def told(self, value: Any) -> Any:
        if not self.leads:
            return self.boxes[self.rank].get(timeout=60)
        for box in self.boxes[1:]:
            box.put(value)
        return value

    def gathered(self, value: Any) -> list[Any]:
        if not self.leads:
            self.answers[self.rank].put(value)
            return []
        return [value, *(box.get(timeout=60) for box in self.answers[1:])]


@contextmanager
def team_of_threads(size: int, make: Callable[[], Translator]) -> Iterator[Translator]:
    """Yield the translator of the main thread; each of the others serves it with its own."""
    boxes: list[Queue[Any]] = [Queue() for _ in range(size)]
    answers: list[Queue[Any]] = [Queue() for _ in range(size)]
    teams = [Threads(rank, size) for rank in range(size)]
    for team in teams:
        object.__setattr__(team, "boxes", boxes)
        object.__setattr__(team, "answers", answers)

    def serve(team: Team) -> None:
        with distributed(make(), team) as translator:
            assert translator is None

    others = [threading.Thread(target=serve, args=(team,), daemon=True) for team in teams[1:]]
    for other in others:
        other.start()
    try:
        with distributed(make(), teams[0]) as translator:
            assert translator is not None
            yield translator
    finally:
        for other in others:
            other.join(timeout=60)
            assert not other.is_alive(), "it still waits"
