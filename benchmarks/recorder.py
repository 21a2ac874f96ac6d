"""Metrics of a peer as seqloom writes its own. Runs in the peer's Python: nothing but the standard library."""

from __future__ import annotations

import json
import sys
import time


class Recorder:
    """Writes a line at every update and ends the process some seconds after the first one."""

    def __init__(self, metrics: str, limit: float) -> None:
        self._metrics = metrics
        self._limit = limit
        self._began = time.monotonic()
        self._first: float | None = None
        self._tokens = 0

    def update(self, step: int, tokens: int) -> None:
        """Notes that update number `step` is done, on so many real target tokens."""
        seconds = time.monotonic() - self._began
        self._tokens += tokens
        row = {"kind": "train", "step": step, "seconds": seconds, "target_tokens": self._tokens}
        with open(self._metrics, "a", encoding="utf-8") as metrics:
            metrics.write(json.dumps(row) + "\n")
        if self._first is None:  # what comes before it, such as reading the data, is no training
            self._first = seconds
        if seconds - self._first >= self._limit:
            sys.exit(0)
