"""Run a toolkit in a separate process and compute its speed from the metrics that it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workload import Workload

from seqloom.errors import SeqloomError

_POLL_SECONDS = 0.1
_FEWEST_UPDATES = 10  # with fewer, batch sizes and other load dominate the rate


@dataclass(frozen=True)
class Measurement:
    """One training run. Tokens are target tokens without padding, including the end of sentence."""

    name: str
    version: str
    tokens_per_second: float  # after the warm-up
    tokens_per_update: float
    measured_seconds: float
    start_to_first_update: float  # seconds since the process was started
    peak_bytes: int  # largest resident set of the process or one of its workers


@dataclass(frozen=True)
class Update:
    """A training line of metrics.jsonl; values are totals since training started."""

    step: int
    seconds: float
    target_tokens: int


def measure(
    command: Sequence[str], metrics: Path, workload: Workload, *, name: str, version: str, log: Path
) -> Measurement:
    """Run the command and measure it by the file `metrics`, to which it writes a line per update."""
    environment = child_environment(workload.threads, cache=log.parent / "cache")
    with open(log, "wb") as output:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        first, peak, code = _watch(process, metrics, started)
    if code != 0:
        raise process_failed(name, code, log)
    updates = read_updates(metrics)
    begin, end = after_warmup(updates, workload.warmup, name=name)
    tokens, seconds = end.target_tokens - begin.target_tokens, end.seconds - begin.seconds
    return Measurement(
        name=name,
        version=version,
        tokens_per_second=tokens / seconds,
        tokens_per_update=tokens / (end.step - begin.step),
        measured_seconds=seconds,
        start_to_first_update=first,
        peak_bytes=peak,
    )


def process_failed(name: str, code: int, log: Path) -> SeqloomError:
    """Print the last lines of the log of a failed process and return the error to raise."""
    print(*log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:], sep="\n", file=sys.stderr)
    return SeqloomError(f"{name} failed with exit code {code}.", "The last lines of its log are above.")


def read_updates(metrics: Path) -> list[Update]:
    """Return the training lines of a metrics.jsonl, oldest first, without an incomplete last line."""
    if not metrics.is_file():
        return []
    updates = []
    for line in metrics.read_text(encoding="utf-8").splitlines(keepends=True):
        row = json.loads(line) if line.endswith("\n") else {}
        if row.get("kind") == "train":
            updates.append(Update(row["step"], row["seconds"], row["target_tokens"]))
    return updates


def after_warmup(updates: list[Update], warmup: float, *, name: str) -> tuple[Update, Update]:
    """Return the first update after the warm-up and the last update. The warm-up starts at the first update."""
    counted = [update for update in updates if update.seconds >= updates[0].seconds + warmup]
    if len(counted) <= _FEWEST_UPDATES:
        raise SeqloomError(
            f"{name} made {len(counted)} updates after a warm-up of {warmup:g} seconds, but a rate needs more "
            f"than {_FEWEST_UPDATES}.",
            "Increase --seconds, and check that the machine is idle.",
        )
    return counted[0], counted[-1]


def _watch(process: subprocess.Popen[bytes], metrics: Path, started: float) -> tuple[float, int, int]:
    """Return seconds to the first update, peak memory in bytes and the exit code."""
    first = 0.0
    while True:
        # wait4 returns the usage of this child; RUSAGE_CHILDREN is the maximum over all children so far.
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if not first and read_updates(metrics):
            first = time.monotonic() - started
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return first, usage.ru_maxrss * 1024, process.returncode
        time.sleep(_POLL_SECONDS)


def child_environment(threads: int, *, cache: Path) -> dict[str, str]:
    """Return the environment variables of a child process, with a separate cache for the benchmark.

    MKL_NUM_THREADS is removed because it would apply to each worker of CTranslate2.
    """
    own = {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "", "SEQLOOM_CACHE": str(cache)}
    return {**{name: value for name, value in os.environ.items() if name != "MKL_NUM_THREADS"}, **own}
