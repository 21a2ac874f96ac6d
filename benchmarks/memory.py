"""Peak memory of training by the size of the corpus, and of translating by the length of the input.

    python benchmarks/memory.py --folder FOLDER --records memory.jsonl [--pairs 30000 10000000]
        [--lines 10000 1000000] [--steps 500]

Short pairs are generated (seeded) into ten shards; a tiny model learns to reverse them, once from a token store
and once from a stream. Each measurement is a process of its own, watched from outside ten times a second: VmHWM
is the largest resident set, with pages of mapped files in it; RssAnon is what is the process's own. The folder
needs about 1.5 GB for 10 million pairs and is removed when all is done. What is recorded is not done again, so
the command can be broken off and repeated.
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
    "text.sample": 20_000,  # so that tokenizers learn from as many lines of every corpus
    "train.max_epochs": 1,  # so that the batches of an epoch are counted: all lengths are looked at
    "train.threads": 1,
    "search.beam": 1,
    "search.max_length_factor": 1,
    "search.max_length_extra": 5,
}
CREATE = """
import json, sys
from seqloom.config import compose
from seqloom.pipeline import create
create(compose(values=json.loads(sys.argv[1])), sys.argv[2])
"""


@dataclass(frozen=True)
class Peak:
    """One process: how long it took, and the most memory that it had, in MB."""

    seconds: float
    resident: float
    anonymous: float


def sentences(count: int, seed: int) -> Iterator[str]:
    """So many lines of 1 to 6 of 500 words."""
    draw = random.Random(seed)
    words = [f"{draw.choice('bdfgklmnprst')}{draw.choice('aeiou')}{number}" for number in range(WORDS)]
    for _ in range(count):
        yield " ".join(draw.choices(words, k=draw.randint(1, LONGEST)))


def write_pairs(file: Path, count: int, seed: int) -> None:
    """A table of so many pairs, a target being its source backwards; later ones repeat the first 100,000."""
    rows = [f"{line}\t{' '.join(reversed(line.split()))}\n" for line in sentences(min(count, DIFFERENT), seed)]
    with open(file, "w", encoding="utf-8") as out:
        for done in range(0, count, DIFFERENT):
            out.writelines(rows[: count - done])


def write_corpus(folder: Path, pairs: int) -> None:
    """Ten shards of so many pairs in all, and a validation table, unless they are there."""
    if (folder / "shards").exists():
        return
    partial = folder / "partial"
    partial.mkdir(parents=True, exist_ok=True)
    write_pairs(folder / "valid.tsv", VALID, seed=SHARDS)
    for shard in range(SHARDS):
        count = pairs * (shard + 1) // SHARDS - pairs * shard // SHARDS
        write_pairs(partial / f"part-{shard}.tsv", count, seed=shard)
    partial.rename(folder / "shards")


def watched(command: Sequence[str], cache: Path) -> Peak:
    """Runs the command to its end."""
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
        raise SeqloomError(f"{' '.join(command[:4])} failed: {log.read_text(encoding='utf-8')[-2000:]}")
    return Peak(time.monotonic() - began, peaks["VmHWM"] / 1024, peaks["RssAnon"] / 1024)


def _status(pid: int) -> dict[str, int]:
    """The kilobytes that /proc/PID/status tells; none when the process has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    rows = (line.replace(":", "").split() for line in lines if line.endswith(" kB"))
    return {name: int(number) for name, number, _ in rows}


def training(folder: Path, pairs: int, steps: int, *, stream: bool) -> dict[str, Peak]:
    """Preparing a run and training it."""
    write_corpus(folder, pairs)
    files = {"data.train": str(folder / "shards"), "data.valid": str(folder / "valid.tsv")}
    options = {**OPTIONS, **files, "data.stream": stream, "train.max_steps": steps}
    run, cache = _run(folder, stream=stream), folder / "cache"
    shutil.rmtree(run, ignore_errors=True)
    prepared = watched([sys.executable, "-c", CREATE, json.dumps(options), str(run)], cache)
    trained = watched([sys.executable, "-m", "seqloom", "resume", str(run)], cache)
    way = "stream" if stream else "store"
    return {f"prepare, {way}, {pairs:,} pairs": prepared, f"train, {way}, {pairs:,} pairs": trained}


def _run(folder: Path, *, stream: bool) -> Path:
    return folder / f"run-{'stream' if stream else 'store'}"


def translating(folder: Path, pairs: int, lines: int, steps: int) -> dict[str, Peak]:
    """Translating so many lines with what was trained on so many pairs."""
    run, source = _run(folder, stream=False), folder / "lines.txt"
    if not (run / "checkpoints" / "best").exists():
        training(folder, pairs, steps, stream=False)
    source.write_text("".join(f"{line}\n" for line in sentences(lines, seed=99)), encoding="utf-8")
    command = ["translate", str(run), str(source), "--engine", "torch", "--out", str(folder / "answers.txt")]
    return {
        f"translate, {lines:,} lines": watched([sys.executable, "-m", "seqloom", *command], folder / "cache")
    }


def measure(folder: Path, records: Path, pairs: Sequence[int], lines: Sequence[int], steps: int) -> None:
    """Records what is not yet recorded."""

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
    """Adds a line for each."""
    with open(records, "a", encoding="utf-8") as file:
        for name, peak in found.items():
            print(json.dumps({"name": name, **asdict(peak)}), file=file)
            print(f"{name}: {peak}", file=sys.stderr, flush=True)


def read(records: Path) -> dict[str, Peak]:
    """The measurements by their names; of one that was made again the last."""
    lines = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
    rows = [json.loads(line) for line in lines]
    return {row.pop("name"): Peak(**row) for row in rows}


def table(found: Mapping[str, Peak]) -> str:
    """The measurements as Markdown."""
    numbers = {name: (peak.resident, peak.anonymous, peak.seconds) for name, peak in found.items()}
    rows = [f"| {name} | {' | '.join(f'{value:,.0f}' for value in row)} |" for name, row in numbers.items()]
    return "\n".join(["| | peak resident, MB | of it anonymous, MB | seconds |", "|---|---|---|---|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for corpora and runs, removed afterwards")
    parser.add_argument("--records", type=Path, required=True, metavar="FILE", help="JSON lines")
    parser.add_argument("--pairs", type=int, nargs="+", default=[30_000, 10_000_000])
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    if sys.platform != "linux":
        raise SeqloomError("This benchmark reads /proc, which only Linux has.")
    measure(options.folder, options.records, options.pairs, options.lines, options.steps)
    print(describe(1, probe(1)[1]))
    print(table(read(options.records)))


if __name__ == "__main__":
    run_command(main)
