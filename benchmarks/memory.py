"""Peak memory of training by corpus size, and of translation by number of lines.

    python benchmarks/memory.py --folder FOLDER --records memory.jsonl [--pairs 30000 10000000]
        [--lines 10000 1000000] [--steps 500]

Short pairs are generated with fixed seeds into ten shards. A tiny model learns to reverse them, once from a
token store and once from a stream. Each measurement runs in a separate process, which is polled ten times per
second: VmHWM is the peak resident set including pages of mapped files, RssAnon the anonymous part. The folder
needs about 1.5 GB for 10 million pairs and is removed at the end. Recorded measurements are skipped, so an
interrupted command can be repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from command import run_command
from machine import describe, probe
from measure import process_failed

from seqloom import SeqloomError

SHARDS, WORDS, LONGEST, DIFFERENT, VALID = 10, 500, 6, 100_000, 1000
POLL_SECONDS = 0.1
OPTIONS: dict[str, Any] = {
    "model.size": "tiny",
    "model.layers": 1,
    "model.width": 32,
    "model.heads": 2,
    "model.ffn": 32,
    "text.vocab_size": 600,
    "text.sample": 20_000,  # the same number of lines for every corpus
    "train.max_epochs": 1,  # so that all lengths are read to count the batches of an epoch
    "train.threads": 1,
    "search.beam": 1,
    "search.max_length_factor": 1,
    "search.max_length_extra": 5,
}
CREATE = """
import json, sys
from seqloom.run.config import compose
from seqloom.run.train import create
create(compose(values=json.loads(sys.argv[1])), sys.argv[2])
"""


@dataclass(frozen=True)
class Peak:
    """Duration in seconds and peak memory in MB of one process."""

    seconds: float
    resident: float
    anonymous: float


def sentences(count: int, seed: int) -> Iterator[str]:
    """Yield random lines of 1 to 6 words from a vocabulary of 500."""
    draw = random.Random(seed)
    words = [f"{draw.choice('bdfgklmnprst')}{draw.choice('aeiou')}{number}" for number in range(WORDS)]
    for _ in range(count):
        yield " ".join(draw.choices(words, k=draw.randint(1, LONGEST)))


def write_pairs(file: Path, count: int, seed: int) -> None:
    """Write a table of pairs whose target is the reversed source; after 100,000 pairs, they repeat."""
    rows = [f"{line}\t{' '.join(reversed(line.split()))}\n" for line in sentences(min(count, DIFFERENT), seed)]
    with open(file, "w", encoding="utf-8") as out:
        for done in range(0, count, DIFFERENT):
            out.writelines(rows[: count - done])


def write_corpus(folder: Path, pairs: int) -> None:
    """Write ten shards with `pairs` pairs in total and a validation table, unless they exist."""
    if (folder / "shards").exists():
        return
    partial = folder / "partial"
    partial.mkdir(parents=True, exist_ok=True)
    write_pairs(folder / "valid.tsv", VALID, seed=SHARDS)
    for shard in range(SHARDS):
        count = pairs * (shard + 1) // SHARDS - pairs * shard // SHARDS
        write_pairs(partial / f"part-{shard}.tsv", count, seed=shard)
    partial.rename(folder / "shards")


def run_watched(command: Sequence[str], cache: Path) -> Peak:
    """Run the command and return its peak memory."""
    environment = {**os.environ, "SEQLOOM_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    began, log = time.monotonic(), cache.parent / "log.txt"
    peaks = dict.fromkeys(("VmHWM", "RssAnon"), 0)
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        while process.poll() is None:
            status = _status(process.pid)
            peaks = {name: max(peak, status.get(name, 0)) for name, peak in peaks.items()}
            time.sleep(POLL_SECONDS)
    if process.returncode:
        raise process_failed(" ".join(command[:4]), process.returncode, log)
    return Peak(time.monotonic() - began, peaks["VmHWM"] / 1024, peaks["RssAnon"] / 1024)


def _status(pid: int) -> dict[str, int]:
    """Return the kB values of /proc/PID/status, or nothing if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    rows = (line.replace(":", "").split() for line in lines if line.endswith(" kB"))
    return {name: int(number) for name, number, _ in rows}


def training(folder: Path, pairs: int, steps: int, *, stream: bool) -> dict[str, Peak]:
    """Measure preparing and training a run."""
    write_corpus(folder, pairs)
    files = {"data.train": str(folder / "shards"), "data.valid": str(folder / "valid.tsv")}
    options = {**OPTIONS, **files, "data.stream": stream, "train.max_steps": steps}
    run, cache = _run(folder, stream=stream), folder / "cache"
    shutil.rmtree(run, ignore_errors=True)
    prepared = run_watched([sys.executable, "-c", CREATE, json.dumps(options), str(run)], cache)
    trained = run_watched([sys.executable, "-m", "seqloom", "resume", str(run)], cache)
    way = "stream" if stream else "store"
    return {f"prepare, {way}, {pairs:,} pairs": prepared, f"train, {way}, {pairs:,} pairs": trained}


def _run(folder: Path, *, stream: bool) -> Path:
    return folder / f"run-{'stream' if stream else 'store'}"


def translating(folder: Path, pairs: int, lines: int, steps: int) -> dict[str, Peak]:
    """Measure translating `lines` lines with the run trained on `pairs` pairs."""
    run, source = _run(folder, stream=False), folder / "lines.txt"
    if not (run / "checkpoints" / "best").exists():
        training(folder, pairs, steps, stream=False)
    source.write_text("".join(f"{line}\n" for line in sentences(lines, seed=99)), encoding="utf-8")
    command = ["translate", str(run), str(source), "--engine", "torch", "--out", str(folder / "outputs.txt")]
    return {
        f"translate, {lines:,} lines": run_watched(
            [sys.executable, "-m", "seqloom", *command], folder / "cache"
        )
    }


def measure(folder: Path, records: Path, pairs: Sequence[int], lines: Sequence[int], steps: int) -> None:
    """Run and record all measurements that are not recorded yet."""

    def missing(name: str) -> bool:
        return name not in read(records)

    for count, stream in product(pairs, (False, True)):
        if missing(f"train, {'stream' if stream else 'store'}, {count:,} pairs"):
            record(records, training(folder / str(count), count, steps, stream=stream))
    for count in lines:
        if missing(f"translate, {count:,} lines"):
            record(records, translating(folder / str(pairs[0]), pairs[0], count, steps))
    shutil.rmtree(folder, ignore_errors=True)


def record(records: Path, found: Mapping[str, Peak]) -> None:
    """Append one line per measurement."""
    with open(records, "a", encoding="utf-8") as file:
        for name, peak in found.items():
            print(json.dumps({"name": name, **asdict(peak)}), file=file)
            print(f"{name}: {peak}", file=sys.stderr, flush=True)


def read(records: Path) -> dict[str, Peak]:
    """Return the measurements by name; the last one counts."""
    lines = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
    rows = [json.loads(line) for line in lines]
    return {row.pop("name"): Peak(**row) for row in rows}


def table(found: Mapping[str, Peak]) -> str:
    """Return the measurements as a Markdown table."""
    numbers = {name: (peak.resident, peak.anonymous, peak.seconds) for name, peak in found.items()}
    rows = [f"| {name} | {' | '.join(f'{value:,.0f}' for value in row)} |" for name, row in numbers.items()]
    return "\n".join(["| | peak resident, MB | of it anonymous, MB | seconds |", "|---|---|---|---|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder",
        type=Path,
        required=True,
        help="folder for corpora and runs, removed at the end",
    )
    parser.add_argument("--records", type=Path, required=True, metavar="FILE", help="results, as JSON lines")
    parser.add_argument("--pairs", type=int, nargs="+", default=[30_000, 10_000_000], help="corpus sizes")
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 1_000_000], help="lines to translate")
    parser.add_argument("--steps", type=int, default=500, help="updates (default: %(default)s)")
    options = parser.parse_args()
    if sys.platform != "linux":
        raise SeqloomError("This benchmark needs Linux: it reads /proc.")
    measure(options.folder, options.records, options.pairs, options.lines, options.steps)
    print(describe(1, probe(1)[1]))
    print(table(read(options.records)))


if __name__ == "__main__":
    run_command(main)
