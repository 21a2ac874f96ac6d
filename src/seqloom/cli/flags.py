"""The quality flags of a command's outputs, counted on standard error."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from seqloom.decode.distrust import MEANING


def print_flags(counts: Mapping[str, int], total: int, run: str = "") -> None:
    """Print how many of the outputs have each flag; `run` names who made them."""
    who = f" of {run}" if run else ""
    for flag, meaning in MEANING.items():
        if count := counts.get(flag):
            print(f"look at: {count:,} of {total:,} outputs{who} ({flag}: {meaning})", file=sys.stderr)
