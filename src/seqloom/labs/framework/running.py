"""Run labs on one thread, without changing the random state of the caller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from seqloom.labs.framework.lab import Lab
from seqloom.labs.framework.results import LabResult, ResultStore, now
from seqloom.settings import Settings


def run_lab(lab: Lab[Any, Any], settings: Settings) -> LabResult:
    """Run a lab and return its result."""
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        start = time.process_time()
        numbers = lab.run(settings)
        seconds = time.process_time() - start
    return LabResult(lab, settings, numbers, seconds, now())


def run_or_reuse(
    lab: Lab[Any, Any], settings: Settings, store: ResultStore, *, again: bool = False
) -> tuple[LabResult, bool]:
    """Return the result of a lab, and whether it was stored before; a new one is stored at once."""
    if not again and (stored := store.find(lab, settings)):
        return stored, True
    result = run_lab(lab, settings)
    store.add(result)
    return result, False


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
