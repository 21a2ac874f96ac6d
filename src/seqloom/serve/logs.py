"""Log of the server: one JSON object per line on standard error, without texts, keys and addresses."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LOGGERS = ("seqloom", "uvicorn.error")


class JsonFormatter(logging.Formatter):
    """Time, level and message of a record, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        values = {"time": time, "level": record.levelname.lower(), "message": record.getMessage()}
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[0] is not None:
            extra["error"] = record.exc_info[0].__name__
        return json.dumps(values | extra, default=str, ensure_ascii=True)


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore a log that cannot be written, e.g. to a full disk: requests go on."""


@contextmanager
def json_log() -> Iterator[None]:
    """Write the log of the server and of uvicorn as JSON until the block ends."""
    handler = _Handler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    before = {}
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        before[name] = (logger.handlers, logger.level, logger.propagate)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "seqloom" else logging.WARNING)
    try:
        yield
    finally:
        for name, (handlers, level, propagate) in before.items():
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
