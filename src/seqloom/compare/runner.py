"""Running of a comparison: one process after the other, resumable at any point."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from seqloom.compare.folder import ComparisonFolder, Failure, Setup, System
from seqloom.compare.prepare import check_same, prepare
from seqloom.compare.settings import CompareSettings
from seqloom.compare.worker import INTERRUPTED, findings
from seqloom.files import clean_up_leftovers
from seqloom.locks import locked
from seqloom.outputs import check_new_folder
from seqloom.progress import duration
from seqloom.registry import imported_files

logger = logging.getLogger(__name__)

Start = Callable[[ComparisonFolder, System], int]
"""Train and decode a system; return an exit code."""


def set_up(folder: ComparisonFolder, settings: CompareSettings) -> Setup:
    """Return the setup of a comparison that was interrupted, or prepare a new one."""
    if folder.setup_file.is_file():
        setup = folder.setup()
        check_same(setup, settings)
        return setup
    check_new_folder(folder.path)
    return prepare(folder, settings)


def cost(setup: Setup, systems: Sequence[System]) -> str:
    """Return the time that the systems take, in words."""
    trained = [system for system in systems if system.seconds is not None]
    fitted = list(dict.fromkeys(system.label for system in systems if system.fitted))
    parts = []
    if trained:
        total = duration(sum(system.seconds or 0.0 for system in trained))
        runs = "1 run" if len(trained) == 1 else f"{len(trained)} runs"
        parts.append(f"at most {total} of training ({runs}, {setup.settings.budget} each)")
    if fitted:
        parts.append(f"the time to fit {', '.join(fitted)}, which have no budget")
    parts.append(f"the time to translate {setup.sizes.test:,} test lines per run")
    return "; ".join(parts)


def run_comparison(
    folder: ComparisonFolder, setup: Setup, *, retry: bool = False, start: Start | None = None
) -> bool:
    """Train and decode every system that has no result yet; return False if one was interrupted.

    With `retry`, systems that have failed are tried again.
    """
    with locked(folder.path / ".seqloom.lock", f"The comparison {folder.path} is being run"):
        clean_up_leftovers(folder.path)
        for system in setup.systems if retry else ():
            folder.record_file(system, "failure").unlink(missing_ok=True)
        missing = [system for system in setup.systems if not folder.is_done(system)]
        for number, system in enumerate(missing, len(setup.systems) - len(missing) + 1):
            left = sum(one.seconds or 0.0 for one in missing[missing.index(system) :])
            about = f"; about {duration(left)} of training left" if left else ""
            logger.info(f"{number} of {len(setup.systems)}: {system.name}{about}")
            if not _run(folder, system, start or start_process):
                return False
    return True


def _run(folder: ComparisonFolder, system: System, start: Start) -> bool:
    """Run one system; return False if it was interrupted. A crash is recorded as a failure."""
    started = time.monotonic()
    code = start(folder, system)
    if code == INTERRUPTED:
        return False
    if code != 0 and not folder.is_done(system):
        folder.write(system, _crash(folder, system, code))
    if failure := folder.failure(system):
        logger.warning(f"{system.name} failed: {failure.message}")
    else:
        logger.info(f"{system.name}: done after {duration(time.monotonic() - started)}")
    return True


def _crash(folder: ComparisonFolder, system: System, code: int) -> Failure:
    """Return the record of a process that ended without one."""
    message = f"The process ended with exit code {code}."
    if code < 0:
        message = f"The process was killed by the signal {signal.Signals(-code).name}."
    hint = "probably out of memory" if code == -signal.SIGKILL else ""
    return Failure(message=message, hint=hint, findings=findings(folder.run(system)))


def start_process(folder: ComparisonFolder, system: System) -> int:
    """Run one system in a process of its own, which saves and stops when this process ends."""
    files = [str(file) for file in imported_files()]
    command = [sys.executable, "-m", "seqloom.compare.worker", str(folder.path), system.name, *files]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the process has received Ctrl-C, too
            process.wait()
            return INTERRUPTED
