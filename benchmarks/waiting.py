"""How often threads should look for one another before they sleep: training alone, and beside other work.

    python benchmarks/waiting.py [--spins 0 1000 10000] [--repeats 3] [--steps 8] [--threads 2]

Our update of benchmarks/training_profile.py with GOMP_SPINCOUNT set to each number (0: not set, what OpenMP
does by itself), each in a process of its own; with nothing else running, and beside one process that only
counts.
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
COUNTING = "while True: sum(range(1_000_000))"


def trained(lengths: Path, steps: int, threads: int) -> float:
    """Real target tokens per second of this process, in batches of these lengths."""
    import torch
    from training_profile import batches, our_update, rate

    from seqloom.machine import keep_freed_memory

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    data = batches(json.loads(lengths.read_text(encoding="utf-8")), VOCABULARY, steps)
    keep_freed_memory()
    update = our_update(VOCABULARY)
    rate(update, data[:3])
    return statistics.median(rate(update, data) for _ in range(3))


def measured(spins: int, lengths: Path, steps: int, threads: int) -> float:
    """The same of a new process whose threads look that often."""
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
def neighbour(wanted: bool) -> Iterator[None]:
    """A process that keeps one processor busy."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", COUNTING])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def take_turns(
    spins: Sequence[int], repeats: int, lengths: Path, steps: int, threads: int
) -> dict[tuple[int, bool], list[float]]:
    """The rates of every number, alone and beside a busy process."""
    rates: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for _, busy, number in product(range(repeats), (False, True), spins):
        with neighbour(busy):
            rates[number, busy].append(measured(number, lengths, steps, threads))
        print(f"{number} {'busy' if busy else 'alone'}: {rates[number, busy][-1]:,.0f}", file=sys.stderr)
    return rates


def table(rates: Mapping[tuple[int, bool], Sequence[float]]) -> str:
    """The medians and ranges as Markdown."""
    lines = ["| GOMP_SPINCOUNT | alone | range | beside one busy process | range |", "|---|---|---|---|---|"]
    for number in dict.fromkeys(number for number, _ in rates):
        cells = (
            f"{statistics.median(found):,.0f} | {min(found):,.0f}–{max(found):,.0f}"
            for found in (rates[number, False], rates[number, True])
        )
        lines.append(f"| {number or 'not set'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spins", type=int, nargs="+", default=[0, 1000, 10_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="updates that are timed, three times over")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(trained(options.alone, options.steps, options.threads))
        return
    with tempfile.TemporaryDirectory(prefix="seqloom-waiting-") as folder:
        corpus = prepare_corpus(find_multi30k(os.environ), Path(folder) / "corpus", vocabulary=VOCABULARY)
        lengths = Path(folder) / "lengths.json"
        lengths.write_text(json.dumps(corpus.lengths), encoding="utf-8")
        print(table(take_turns(options.spins, options.repeats, lengths, options.steps, options.threads)))


if __name__ == "__main__":
    run_command(main)
