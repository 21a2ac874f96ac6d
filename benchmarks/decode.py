"""Decoding speed of seqloom's engines and of other toolkits with the same weights on the same machine.

    python benchmarks/decode.py [--run RUN] [--lines 1000] [--repeats 3] [--only NAME …] [--json out.json]

Each system translates the first lines of Multi30k's test_2016_flickr, English to German, greedily and with beam
5: first all lines in batches, then 100 lines one at a time. The model is a Transformer with 3 + 3 layers, width
256 and a joint vocabulary of 8,000. The run is trained first if it does not exist. Each system runs in its own
process on --threads processors.

    seqloom-torch, seqloom-ctranslate2, seqloom-int8    default settings; text in, text out
    ctranslate2-[int8-]workers|threads                  plain CTranslate2: one thread per worker, or one worker;
                                                        text in, text out, with the same tokenizer
    huggingface, huggingface-count, opennmt             the same weights in their formats; ids in, ids out;
                                                        huggingface-count uses seqloom's stopping rule
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from command import Failures, run_command
from decoders import OURS, PLAIN, SYSTEMS, TORCH, Decoder, Result, Setup, run_decoder
from machine import Machine, describe
from rich import box
from rich.console import Console
from rich.table import Table
from workload import Transformer, find_multi30k, unpacked

import seqloom
from seqloom.run.directory import Run

BEAMS = (1, 5)
_TEST = "test_2016_flickr"


@dataclass(frozen=True)
class Summary:
    """Results of one system with one beam size: medians over its runs."""

    name: str
    title: str
    version: str
    beam: int
    sentences_per_second: float
    slowest: float
    fastest: float
    ratio: float | None  # to the rate of our torch engine
    p50: float  # milliseconds for a single line
    p95: float
    bleu: float
    equal: int | None  # outputs identical to those of our torch engine
    start_to_first_output: float


@dataclass(frozen=True)
class Target:
    """A ratio and the minimum it should reach."""

    what: str
    ratio: float
    least: float

    @property
    def reached(self) -> bool:
        return self.ratio >= self.least


def train_if_missing(folder: Path, data: Path, steps: int) -> Path:
    """Return the folder of a run; train it for `steps` updates if it does not exist."""
    if folder.exists():
        return folder
    print(f"training {folder} for {steps:,} updates", file=sys.stderr)
    files = {
        f"data.{part}": str(path if path.is_file() else path.with_name(path.stem))
        for part, path in (
            ("source", data / "train.en.gz"),
            ("target", data / "train.de.gz"),
            ("valid_source", data / "val.en.gz"),
            ("valid_target", data / "val.de.gz"),
        )
    }
    sizes = {f"model.{option}": value for option, value in asdict(Transformer()).items()}
    settings = {
        **files,
        **sizes,
        "text.vocab_size": 8000,
        "train.max_steps": steps,
        "train.checkpoint_every": max(1, min(500, steps)),
    }
    seqloom.train(out=folder, settings=settings, plan="fixed")
    return folder


def compare(
    decoders: Mapping[str, Decoder],
    setup: Setup,
    lines: Sequence[str],
    repeats: int,
    single: int,
    failures: Failures,
) -> dict[str, list[Result]]:
    """Return the results of every system that did not fail. The systems take turns, `repeats` times."""
    results: dict[str, list[Result]] = {name: [] for name in decoders}
    for repeat in range(repeats):
        for name, decoder in decoders.items():
            if name in failures:
                continue
            print(f"round {repeat + 1} of {repeats}: {name} …", file=sys.stderr, flush=True)
            folder = setup.work / f"{name}-{repeat}"
            folder.mkdir()
            with failures.collect(name):
                results[name].append(run_decoder(decoder, setup, lines, BEAMS, single=single, folder=folder))
    return {name: runs for name, runs in results.items() if runs}


def summarise(
    decoders: Mapping[str, Decoder], results: Mapping[str, Sequence[Result]], references: Sequence[str]
) -> list[Summary]:
    """Return one summary per system and beam size."""
    from sacrebleu.metrics.bleu import BLEU

    summaries = []
    for beam in BEAMS:
        ours = [run.searches[beam] for run in results.get(TORCH, ())]
        own = [len(references) / timing.seconds for timing in ours]
        for name, runs in results.items():
            timings = [run.searches[beam] for run in runs]
            rates = [len(references) / timing.seconds for timing in timings]
            outputs = timings[0].outputs
            summaries.append(
                Summary(
                    name=name,
                    title=decoders[name].title,
                    version=decoders[name].version,
                    beam=beam,
                    sentences_per_second=statistics.median(rates),
                    slowest=min(rates),
                    fastest=max(rates),
                    ratio=statistics.median(rates) / statistics.median(own) if own else None,
                    p50=statistics.median(1e3 * percentile(t.latencies, 50) for t in timings),
                    p95=statistics.median(1e3 * percentile(t.latencies, 95) for t in timings),
                    bleu=BLEU().corpus_score(outputs, [list(references)]).score,
                    equal=sum(map(str.__eq__, outputs, ours[0].outputs)) if ours else None,
                    start_to_first_output=statistics.median(run.start_to_first_output for run in runs),
                )
            )
    return summaries


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the given percentile (nearest rank)."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def targets(summaries: Sequence[Summary]) -> list[Target]:
    """Return the targets whose systems were measured."""
    found = []
    for beam in BEAMS:
        rows = {row.name: row for row in summaries if row.beam == beam}
        for peer, least in (
            (("opennmt", 1.2), ("huggingface", 4.0), ("huggingface-count", 4.0)) if beam > 1 else ()
        ):
            if TORCH in rows and peer in rows:
                ratio = rows[TORCH].sentences_per_second / rows[peer].sentences_per_second
                found.append(Target(f"{rows[TORCH].title} to {rows[peer].title}, beam {beam}", ratio, least))
        ours = [row for name, row in rows.items() if name.startswith(OURS)]
        plain = [row for name, row in rows.items() if name.startswith(PLAIN)]
        if ours and plain:
            search = "greedy" if beam == 1 else f"beam {beam}"
            rate = max(r.sentences_per_second for r in ours) / max(r.sentences_per_second for r in plain)
            found.append(Target(f"best of seqloom to best plain CTranslate2, {search}", rate, 1.0))
            speed = min(r.p50 for r in plain) / min(r.p50 for r in ours)
            found.append(Target(f"the same by the p50 of single lines, {search}", speed, 1.0))
    return found


def show(machine: Machine, lines: int, batch: int, summaries: Sequence[Summary]) -> None:
    """Print the machine, one table per beam size, and the targets."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(
        f"{machine.cpu}, {machine.cores} cores, {machine.threads} threads, Python {machine.python}, "
        f"torch {machine.torch}, {machine.date}; {lines:,} sentences, "
        f"batches of {batch} for systems without automatic batching"
    )
    for beam in BEAMS:
        table = Table("greedy" if beam == 1 else f"beam {beam}", box=box.MARKDOWN)
        for title in ("sentences/s", "range", "to torch", "p50", "p95", "BLEU", "equal", "first output"):
            table.add_column(title, justify="right")
        for row in (summary for summary in summaries if summary.beam == beam):
            table.add_row(
                f"{row.title} ({row.version})",
                f"{row.sentences_per_second:,.0f}",
                f"{row.slowest:,.0f}–{row.fastest:,.0f}",
                "–" if row.ratio is None else f"{row.ratio:.2f}",
                f"{row.p50:.1f} ms",
                f"{row.p95:.1f} ms",
                f"{row.bleu:.1f}",
                "–" if row.equal is None else f"{row.equal:,}",
                f"{row.start_to_first_output:.1f} s",
            )
        console.print(table)
    for target in targets(summaries):
        reached = "reached" if target.reached else "MISSED"
        console.print(f"{target.what}: {target.ratio:.2f} (target: at least {target.least:g}): {reached}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--run", type=Path, help="run directory; trained first if it does not exist")
    parser.add_argument(
        "--train-steps",
        type=int,
        default=2000,
        help="updates if --run is trained (default: %(default)s)",
    )
    parser.add_argument("--lines", type=int, default=1000, help="number of test lines (default: %(default)s)")
    parser.add_argument("--single", type=int, default=100, help="lines for the latency (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each system (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="sentences per batch (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="number of processors (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument(
        "--environments", type=Path, default=Path.home() / ".cache" / "seqloom" / "peers", metavar="FOLDER"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements as JSON")
    return parser.parse_args()


def _confine(threads: int) -> None:
    """Restrict this process and its children to the given number of processors."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def _without_outputs(result: Result) -> dict[str, Any]:
    data = asdict(result)
    for timing in data["searches"].values():
        del timing["outputs"]
    return data


def main() -> None:
    options = parse()
    data, machine = find_multi30k(os.environ), describe(options.threads, importlib.metadata.version("torch"))
    sources, references = (
        unpacked(data, f"{_TEST}.{language}").decode("utf-8").splitlines()[: options.lines]
        for language in ("en", "de")
    )
    with tempfile.TemporaryDirectory(prefix="seqloom-benchmark-") as temporary:
        work = Path(temporary)
        run = train_if_missing(options.run or work / "run", data, options.train_steps)
        _confine(options.threads)
        setup = Setup(run, work, options.environments, options.threads, options.batch)
        decoders = {name: make(setup) for name, make in SYSTEMS.items() if name in options.only}
        failures = Failures()
        results = compare(decoders, setup, sources, options.repeats, options.single, failures)
        model = Run.open(run).config().model.model_dump(mode="json")
        vocabulary = setup.tokenizers.target.size
    summaries = summarise(decoders, results, references)
    show(machine, len(sources), options.batch, summaries)
    if options.json:
        report = {
            "machine": asdict(machine),
            "model": {**model, "vocabulary": vocabulary},
            "lines": len(sources),
            "single": options.single,
            "batch": options.batch,
            "summary": [asdict(summary) for summary in summaries],
            "targets": [{**asdict(target), "reached": target.reached} for target in targets(summaries)],
            "runs": {name: [_without_outputs(result) for result in runs] for name, runs in results.items()},
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    failures.raise_if_any()


if __name__ == "__main__":
    run_command(main)
