"""Logging: messages of the `seqloom` logger on the console and in log.txt of a run.

Every module logs to `logging.getLogger(__name__)`. Importing seqloom configures nothing: `console` shows the
messages while a command or a training run lasts, and `log_file` writes them to a file.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seqloom.progress import stderr_console

LOGGER = logging.getLogger("seqloom")
IN_PROGRESS_BAR = {"in_progress_bar": True}  # `extra` of a message that the progress bar shows already
NOT_IN_LOG_FILE = {"not_in_log_file": True}  # `extra` of a message about a file that cannot be written

_NOTHING = logging.CRITICAL + 1


class ConsoleHandler(logging.Handler):
    """Messages on standard error: above the progress bar on a terminal, plain lines elsewhere."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message. A closed standard error ends the command, as it does for `print`."""
        if getattr(record, "in_progress_bar", False):
            return
        line = self.format(record)
        if sys.stderr.isatty():
            stderr_console().print(line, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)


@contextmanager
def console(*, quiet: bool = False, is_main: bool = True, force: bool = False) -> Iterator[None]:
    """Show messages until the block ends: INFO and above, or WARNING and above if `quiet`.

    Handlers that the user has added to the root logger or to the `seqloom` logger get the messages instead of
    standard error; with `force`, for the command line, standard error gets them and the root logger does not. A
    level that the user has set for the `seqloom` logger is respected. Only the main process of a process group
    shows messages.
    """
    level, propagate = LOGGER.level, LOGGER.propagate
    least = max(level, logging.WARNING) if quiet else level or logging.INFO
    filter_ = _MinimumLevel(least if is_main else _NOTHING)
    own = None
    LOGGER.propagate = propagate and not force
    if force or not _handlers():
        LOGGER.addHandler(own := ConsoleHandler())
    handlers = _handlers()
    for handler in handlers:
        handler.addFilter(filter_)
    LOGGER.setLevel(min(least, logging.INFO))  # log.txt has all messages, whatever the console shows
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate
        for handler in handlers:
            handler.removeFilter(filter_)
        if own:
            LOGGER.removeHandler(own)


@contextmanager
def log_file(path: Path) -> Iterator[None]:
    """Append messages to a file, with the time of day, until the block ends."""
    handler, level = _LogFileHandler(path), LOGGER.level
    LOGGER.addHandler(handler)
    if not LOGGER.isEnabledFor(logging.INFO):
        LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.removeHandler(handler)
        handler.close()


class LineFile:
    """A file that grows by lines, each forced to the disk.

    Lines that cannot be written, e.g. to a full disk, are kept in memory and written with the next line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._unwritten = b""
        self._is_failing = False

    def append(self, line: str) -> None:
        """Append a line; log a warning at the first failure, and again only after a success."""
        self._unwritten += line.encode(errors="replace") + b"\n"
        error = self._write()
        if error and not self._is_failing:
            LOGGER.warning(
                "%s cannot be written: %s; its lines are kept in memory",
                self.path,
                error.strerror,
                extra=NOT_IN_LOG_FILE,
            )
        self._is_failing = error is not None

    def close(self) -> None:
        self._write()
        os.close(self._handle)

    def _write(self) -> OSError | None:
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._handle, self._unwritten) :]
            os.fsync(self._handle)
        except OSError as error:
            return error
        return None


class _LogFileHandler(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
        self._file = LineFile(path)

    def emit(self, record: logging.LogRecord) -> None:
        if not getattr(record, "not_in_log_file", False):
            self._file.append(self.format(record))

    def close(self) -> None:
        self._file.close()
        super().close()


class _MinimumLevel(logging.Filter):
    """Rejects messages of seqloom below a level; passes those of other libraries."""

    def __init__(self, least: int) -> None:
        super().__init__(LOGGER.name)
        self._least = least

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._least or not super().filter(record)


def _handlers() -> list[logging.Handler]:
    """Return the handlers that show messages of seqloom."""
    candidates = (*LOGGER.handlers, *(logging.getLogger().handlers if LOGGER.propagate else ()))
    return [one for one in candidates if not isinstance(one, logging.NullHandler | _LogFileHandler)]
