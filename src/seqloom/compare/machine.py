"""The machine of a comparison, for the report."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from seqloom import __version__
from seqloom.system import processors


def machine_facts() -> dict[str, str | int]:
    """Return processor, threads and versions."""
    return {
        "cpu": _cpu_model(),
        "processors": processors(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "seqloom": __version__,
    }


def _cpu_model() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
