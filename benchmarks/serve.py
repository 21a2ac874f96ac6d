"""Speed of `seqloom serve` under load: against a plain server, offline translation and LibreTranslate.

    python benchmarks/serve.py --run runs/multi30k [--only plain offline single …] [--json out.json]

The load comes from another process on loopback, and every output is compared with that of offline
translation. Systems that are compared take turns, `--repeats` times for `--seconds` each; the table has medians
of the ratios within a round. Lines are those of Multi30k's test_2016_flickr that are one sentence. The run is
trained first if it does not exist.

    plain            32 clients, one sentence per request: seqloom serve and a plain FastAPI server
    offline          64 clients, 1 and 32 sentences per request: seqloom serve and a call of the translator
    single           one client: the time of a request, and of a call of the translator
    overload         three times the capacity for --overload-seconds, then a normal load
    mixed            --mixed requests of all kinds: failures and growth of memory
    libretranslate   32 clients, and one request of 100 texts; needs --libretranslate PYTHON
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from command import run_command
from decode import train_if_missing
from machine import describe
from rich import box
from rich.console import Console
from rich.table import Table
from serve_scenarios import Benchmark, Measured
from serving import one_segment, usual_length
from workload import find_multi30k, unpacked

SCENARIOS = ("plain", "offline", "single", "overload", "mixed", "libretranslate")
_TEST = "test_2016_flickr"


def show(title: str, measured: list[Measured]) -> None:
    """Print the table."""
    table = Table(box=box.MARKDOWN, title=title)
    for name in ("scenario", "measure", "value", "goal", "", "details"):
        table.add_column(name)
    for one in measured:
        goal = f"{'≤' if one.at_most else '≥'} {one.goal:g}"
        table.add_row(
            one.scenario, one.what, f"{one.value:.2f}", goal, "reached" if one.reached else "missed", one.note
        )
    Console(width=160).print(table)


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", type=Path, help="run directory (trained if it does not exist)")
    parser.add_argument("--export", type=Path, help="int8 export of the run (written if it does not exist)")
    parser.add_argument("--train-steps", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=SCENARIOS[:-1])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="duration of a load")
    parser.add_argument("--beam", type=int, default=1, help="beam of the scenarios offline and libretranslate")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--overload-seconds", type=float, default=60.0)
    parser.add_argument("--mixed", type=int, default=20_000)
    parser.add_argument("--libretranslate", type=Path, help="Python interpreter with LibreTranslate")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    options, data = parse(), find_multi30k(os.environ)
    machine = describe(len(os.sched_getaffinity(0)), importlib.metadata.version("torch"))
    lines = one_segment(unpacked(data, f"{_TEST}.en").decode("utf-8").splitlines())[: options.lines]
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="seqloom-benchmark-") as folder:
        work = Path(folder)
        run = train_if_missing(options.run or work / "run", data, options.train_steps)
        benchmark = Benchmark(options, work, run, lines)
        benchmark.lines = usual_length(lines, benchmark.bench("default", 1).translator)
        print(f"{len(benchmark.lines)} of {len(lines)} lines have outputs of usual length", file=sys.stderr)
        for name in options.only:
            for one in getattr(benchmark, name)():
                print(f"{one.scenario}: {one.what}: {one.value:.2f} ({one.note})", file=sys.stderr, flush=True)
                measured.append(one)
    show(f"seqloom serve, {machine.date}, {machine.cores} cores of {machine.cpu}", measured)
    if options.json:
        report = {
            "machine": asdict(machine),
            "measured": [{**asdict(one), "reached": one.reached} for one in measured],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
