"""Runs a contestant as a process of its own and reads its speed out of the metrics that it writes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workload import Workload

from seqloom.errors import SeqloomError

_POLL_SECONDS = 0.1
_FEWEST_UPDATES = 10  # batches differ in size and a busy machine stalls: fewer would be chance


@dataclass(frozen=True)
class Measurement:
    """One run of one contestant. Tokens are real target tokens: no padding, the end of sentence counted."""

    name: str
    version: str
    tokens_per_second: float  # after the warm-up
    tokens_per_update: float
    measured_seconds: float
    start_to_first_update: float  # seconds, from launching the process
    peak_bytes: int  # the largest resident set of the process or of one of its workers


@dataclass(frozen=True)
class Update:
    """A training line of metrics.jsonl: what was done since the loop began."""

    step: int
    seconds: float
    target_tokens: int


def measure(
    command: Sequence[str], metrics: Path, workload: Workload, *, name: str, version: str, log: Path
) -> Measurement:
    """Runs the command to its end and measures it by `metrics`, where it writes a line at every update."""
    environment = child_environment(workload.threads, cache=log.parent / "cache")
    with open(log, "wb") as output:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        first, peak, code = _watch(process, metrics, started)
    if code != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise SeqloomError(f"{name} ended with exit code {code}; the end of its log:\n{tail}")
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


def read_updates(metrics: Path) -> list[Update]:
    """The training lines of a metrics.jsonl, oldest first; a half-written last line is left out."""
    if not metrics.is_file():
        return []
    updates = []
    for line in metrics.read_text(encoding="utf-8").splitlines(keepends=True):
        row = json.loads(line) if line.endswith("\n") else {}
        if row.get("kind") == "train":
            updates.append(Update(row["step"], row["seconds"], row["target_tokens"]))
    return updates


def after_warmup(updates: list[Update], warmup: float, *, name: str) -> tuple[Update, Update]:
    """The first line after the warm-up, which begins with the first update, and the last line."""
    counted = [update for update in updates if update.seconds >= updates[0].seconds + warmup]
    if len(counted) <= _FEWEST_UPDATES:
        raise SeqloomError(
            f"{name} made {len(counted)} updates after a warm-up of {warmup:g} seconds; a rate needs more than "
            f"{_FEWEST_UPDATES}.",
            "give more --seconds, and see that nothing else keeps the machine busy",
        )
    return counted[0], counted[-1]


def _watch(process: subprocess.Popen[bytes], metrics: Path, started: float) -> tuple[float, int, int]:
    """Seconds to the first update, peak memory in bytes, exit code."""
    first = 0.0
    while True:
        # wait4 gives the usage of this child alone; RUSAGE_CHILDREN would give the largest of all so far.
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if not first and read_updates(metrics):
            first = time.monotonic() - started
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return first, usage.ru_maxrss * 1024, process.returncode
        time.sleep(_POLL_SECONDS)


def child_environment(threads: int, *, cache: Path) -> dict[str, str]:
    """This process's variables, with a cache of the benchmark: nothing starts from what was prepared before.

    MKL has no limit of its own: that one would also hold for each of CTranslate2's workers.
    """
    own = {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "", "SEQLOOM_CACHE": str(cache)}
    return {**{name: value for name, value in os.environ.items() if name != "MKL_NUM_THREADS"}, **own}
