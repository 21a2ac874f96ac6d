"""Description of the machine and its peak rate of matrix multiplication."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Run in a separate process: the peak memory of a child includes the memory of the process it was forked from.
_PROBE = """
import json, sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
a, b, out = (torch.randn(2048, 2048) for _ in range(3))
times = []
for _ in range(12):
    start = time.perf_counter()
    torch.mm(a, b, out=out)
    times.append(time.perf_counter() - start)
print(json.dumps({"torch": torch.__version__, "flops": 2 * 2048**3 / min(times[2:])}))
"""


@dataclass(frozen=True)
class Machine:
    """Machine, software versions and date of a measurement."""

    cpu: str
    cores: int
    threads: int
    python: str
    torch: str
    date: str


def describe(threads: int, torch: str) -> Machine:
    """Return a description of this machine."""
    return Machine(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=threads,
        python=platform.python_version(),
        torch=torch,
        date=datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
    )


def probe(threads: int) -> tuple[float, str]:
    """Return the FLOP/s of a 2,048³ float32 product (best of ten) and the torch version."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, str(threads)], capture_output=True, text=True, check=True
    )
    output = json.loads(done.stdout)
    return float(output["flops"]), str(output["torch"])


def _cpu_model() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
