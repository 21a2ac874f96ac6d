"""Effect of GOMP_SPINCOUNT on training speed, on an idle machine and with one other busy process.

    python benchmarks/waiting.py [--spins 0 1000 10000] [--repeats 3] [--steps 8] [--threads 2]

GOMP_SPINCOUNT is how often an OpenMP thread polls for the other threads before it sleeps (0: not set, the
default of OpenMP). Each value runs the seqloom update of benchmarks/training_profile.py in a separate process,
alone and next to a process that keeps one processor busy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from command import run_command
from workload import find_multi30k, prepare_corpus

VOCABULARY = 8000
BUSY_LOOP = "while True: sum(range(1_000_000))"


def training_rate(lengths: Path, steps: int, threads: int) -> float:
    """Return the target tokens per second of this process with batches of these lengths."""
    import torch
    from training_profile import batches, our_update, rate

    from seqloom.system import keep_freed_memory

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    data = batches(json.loads(lengths.read_text(encoding="utf-8")), VOCABULARY, steps)
    keep_freed_memory()
    update = our_update(VOCABULARY)
    rate(update, data[:3])
    return statistics.median(rate(update, data) for _ in range(3))


def measure(spins: int, lengths: Path, steps: int, threads: int) -> float:
    """Return the training rate of a new process with the given GOMP_SPINCOUNT."""
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    if spins:
        environment["GOMP_SPINCOUNT"] = str(spins)
    command = [
        sys.executable,
        __file__,
        "--alone",
        str(lengths),
        "--steps",
        str(steps),
        "--threads",
        str(threads),
    ]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


@contextmanager
def busy_process(busy: bool) -> Iterator[None]:
    """Keep one processor busy while the context is active, if `busy` is true."""
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", BUSY_LOOP])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def take_turns(
    spins: Sequence[int], repeats: int, lengths: Path, steps: int, threads: int
) -> dict[tuple[int, bool], list[float]]:
    """Return the rates of every value, alone and next to a busy process."""
    rates: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for _, busy, number in product(range(repeats), (False, True), spins):
        with busy_process(busy):
            rates[number, busy].append(measure(number, lengths, steps, threads))
        print(f"{number} {'busy' if busy else 'alone'}: {rates[number, busy][-1]:,.0f}", file=sys.stderr)
    return rates


def table(rates: Mapping[tuple[int, bool], Sequence[float]]) -> str:
    """Return medians and ranges as a Markdown table."""
    lines = ["| GOMP_SPINCOUNT | alone | range | with one busy process | range |", "|---|---|---|---|---|"]
    for number in dict.fromkeys(number for number, _ in rates):
        cells = (
            f"{statistics.median(found):,.0f} | {min(found):,.0f}–{max(found):,.0f}"
            for found in (rates[number, False], rates[number, True])
        )
        lines.append(f"| {number or 'not set'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--spins",
        type=int,
        nargs="+",
        default=[0, 1000, 10_000],
        help="values of GOMP_SPINCOUNT",
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs per value (default: %(default)s)")
    parser.add_argument(
        "--steps",
        type=int,
        default=8,
        help="timed updates, repeated three times (default: %(default)s)",
    )
    parser.add_argument("--threads", type=int, default=2, help="number of threads (default: %(default)s)")
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(training_rate(options.alone, options.steps, options.threads))
        return
    with tempfile.TemporaryDirectory(prefix="seqloom-waiting-") as folder:
        corpus = prepare_corpus(find_multi30k(os.environ), Path(folder) / "corpus", vocabulary=VOCABULARY)
        lengths = Path(folder) / "lengths.json"
        lengths.write_text(json.dumps(corpus.lengths), encoding="utf-8")
        print(table(take_turns(options.spins, options.repeats, lengths, options.steps, options.threads)))


if __name__ == "__main__":
    run_command(main)
