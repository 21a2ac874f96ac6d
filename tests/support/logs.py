"""Loggers as a program has them that runs without pytest, which adds handlers to the root logger."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unconfigured_logging() -> Iterator[None]:
    """Remove all handlers from the root logger until the block ends."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = before
