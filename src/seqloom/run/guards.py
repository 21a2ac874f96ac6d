"""Signals and disk errors while a run is trained."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from seqloom.errors import SeqloomError
from seqloom.locks import locked
from seqloom.run.directory import Run

logger = logging.getLogger(__name__)


@contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after Ctrl-C or SIGTERM; a second Ctrl-C interrupts at once.

    Signals are received by the main thread only: in another thread the function always returns False.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    received: list[str] = []
    is_logged = False

    def on_signal(number: int, frame: object) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(signal.Signals(number).name)

    def stop() -> bool:
        nonlocal is_logged
        if received and not is_logged:  # not logged by the handler, which may have interrupted a write
            is_logged = True
            logger.info(f"{received[0]} received: saving")
        return bool(received)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def disk_errors(run: Run) -> Iterator[None]:
    """Turn an OSError into an error message that names the run and says how to continue it."""
    try:
        yield
    except BrokenPipeError:  # the console was closed; no file is affected
        raise
    except OSError as error:
        raise SeqloomError(
            f"Training of {run.folder} failed: {error.filename or 'a file'}: {error.strerror or error}.",
            f"saved checkpoints are intact; fix the disk problem, then run: seqloom resume {run.folder}",
        ) from error


@contextmanager
def exclusive_training(run: Run) -> Iterator[None]:
    """Keep other processes from training the run; the kernel releases the lock when the process ends."""
    with disk_errors(run), locked(run.lock_file, f"The run {run.folder} is being trained"):
        yield
