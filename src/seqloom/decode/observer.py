"""Observation of a running search: an observer sees the output so far, and stops the search by an exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TokensSoFar = Callable[[], list[int]]
StepObserver = Callable[[TokensSoFar], None]

_observer: ContextVar[StepObserver | None] = ContextVar("step_observer", default=None)


@contextmanager
def observe_steps(observer: StepObserver) -> Iterator[None]:
    """Call the observer after each step of every search and sampling inside the block.

    Its argument returns the token ids of the first open sentence of the batch: of its best hypothesis, or of
    its first sample. An exception of the observer ends the search.
    """
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def report_step(tokens: TokensSoFar) -> None:
    """Call the observer, if there is one."""
    if (observer := _observer.get()) is not None:
        observer(tokens)
