"""Operating system and machine: memory, processors, threads and the cache folder."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seqloom.errors import SeqloomError, quoted
from seqloom.files import clean_up_leftovers
from seqloom.locks import lock_of, locked_after_waiting

MOST_THREADS = 1024  # far more threads crash inside a library instead of raising an error
_MOST_PROCESSES = 4  # maximum of --processes per processor

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def keep_freed_memory() -> None:
    """Make glibc keep the memory of freed tensors instead of returning it to the system.

    Each step allocates the same large tensors again; otherwise the kernel clears every page of them each time,
    which costs more than many of the operations that fill them.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # absent in other C libraries
            mallopt(_M_MMAP_THRESHOLD, 1 << 30)
            mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def processors() -> int:
    """Return the number of processors for this process: its share, if torchrun started several processes."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, available // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def checked_threads(threads: int | None) -> int:
    """Return the number of threads or workers: the given one, by default one per processor."""
    if threads is None:
        return processors()
    if not 1 <= threads <= MOST_THREADS:
        raise SeqloomError(
            f"The number of threads must be from 1 to {MOST_THREADS:,}, got {quoted(threads)}.",
            f"leave it out to use all {processors()} processors of this machine",
        )
    return threads


def check_processes(processes: int) -> None:
    """Raise if this is too many processes for this machine."""
    most = max(8, _MOST_PROCESSES * (os.cpu_count() or 1))
    if processes > most:
        raise SeqloomError(
            f"--processes must be at most {most} on this machine, got {quoted(processes)}.",
            f"it has {os.cpu_count()} processors; more processes than that are slower",
        )


def busy_elsewhere(seconds: float = 0.2) -> float:
    """Return the number of processors that other programs use now; 0 if the system does not report it."""
    first = _busy_seconds()
    time.sleep(seconds)
    return max(0.0, (_busy_seconds() - first) / seconds)


def _busy_seconds() -> float:
    """Return the processor time used since boot by all other processes, in seconds."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return 0.0
    user, nice, system = map(int, first.split()[1:4])
    own = os.times()
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - own.user - own.system


def cache_folder() -> Path:
    """Return the folder for downloads and token stores: SEQLOOM_CACHE, or seqloom in the user's cache."""
    if own := os.environ.get("SEQLOOM_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "seqloom"


class UnwritableCache(SeqloomError):
    """The error for a cache folder that cannot be written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"The cache folder {folder} cannot be written: {error.strerror or error}.",
            "set SEQLOOM_CACHE to a writable folder",
        )


def make_cache_folder(name: str) -> Path:
    """Return the folder of that name in the cache folder; create it if needed."""
    folder = cache_folder() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableCache(folder, error) from error
    return folder


@contextmanager
def only_cache_writer(entry: Path) -> Iterator[None]:
    """Hold the lock of a cache entry; wait for other writers and clean up after killed ones."""
    try:
        clean_up_leftovers(entry.parent)
        with locked_after_waiting(lock_of(entry), f"{entry} is being written"):
            yield
    except OSError as error:
        raise UnwritableCache(entry, error) from error
