"""How often threads should look for one another before they sleep: training alone, and beside other work.

    python benchmarks/waiting.py [--spins 0 1000 10000 100000] [--repeats 3] [--steps 8] [--threads 2]

Our update of benchmarks/training_profile.py with GOMP_SPINCOUNT set to each number (0: not set, what OpenMP
does by itself), each in a process of its own; with nothing else running, and beside one process that only
counts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from command import run_command

COUNTING = "while True: sum(range(1_000_000))"


def trained(steps: int, threads: int) -> float:
    """Real target tokens per second of this process."""
    import torch
    from training_profile import batches, our_update, rate
    from workload import find_multi30k, prepare_corpus

    from seqloom.machine import keep_freed_memory

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory(prefix="seqloom-waiting-") as folder:
        corpus = prepare_corpus(find_multi30k(os.environ), Path(folder) / "corpus", vocabulary=8000)
    data = batches(corpus.lengths, corpus.vocabulary_size, steps)
    keep_freed_memory()
    update = our_update(corpus.vocabulary_size)
    rate(update, data[:3])
    return statistics.median(rate(update, data) for _ in range(3))


def measured(spins: int, steps: int, threads: int) -> float:
    """The same of a new process whose threads look that often."""
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    if spins:
        environment["GOMP_SPINCOUNT"] = str(spins)
    command = [sys.executable, __file__, "--alone", "--steps", str(steps), "--threads", str(threads)]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spins", type=int, nargs="+", default=[0, 1000, 10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="updates that are timed, three times over")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(trained(options.steps, options.threads))
        return
    rates: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for _ in range(options.repeats):
        for busy in (False, True):
            for spins in options.spins:
                with neighbour(busy):
                    rates[spins, busy].append(measured(spins, options.steps, options.threads))
                print(f"{spins} {'busy' if busy else 'alone'}: {rates[spins, busy][-1]:,.0f}", file=sys.stderr)
    print(
        "| GOMP_SPINCOUNT | alone | range | beside one busy process | range |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    for spins in options.spins:
        cells = (
            f"{statistics.median(found):,.0f} | {min(found):,.0f}–{max(found):,.0f}"
            for found in (rates[spins, False], rates[spins, True])
        )
        print(f"| {spins or 'not set'} | {' | '.join(cells)} |")


if __name__ == "__main__":
    run_command(main)
