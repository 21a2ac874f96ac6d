"""Record the updates of another toolkit in the format of seqloom. Uses only the standard library."""

from __future__ import annotations

import json
import sys
import time


class Recorder:
    """Writer of one line per update that ends the process `limit` seconds after the first update."""

    def __init__(self, metrics: str, limit: float) -> None:
        self._metrics = metrics
        self._limit = limit
        self._began = time.monotonic()
        self._first: float | None = None
        self._tokens = 0

    def update(self, step: int, tokens: int) -> None:
        """Record update number `step` with its number of target tokens (without padding)."""
        seconds = time.monotonic() - self._began
        self._tokens += tokens
        row = {"kind": "train", "step": step, "seconds": seconds, "target_tokens": self._tokens}
        with open(self._metrics, "a", encoding="utf-8") as metrics:
            metrics.write(json.dumps(row) + "\n")
        if self._first is None:  # the time before it, e.g. for reading data, does not count
            self._first = seconds
        if seconds - self._first >= self._limit:
            sys.exit(0)
