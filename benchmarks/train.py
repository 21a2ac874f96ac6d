"""Training speed of seqloom and other toolkits with the same machine, data, vocabulary and model size.

    python benchmarks/train.py [--model transformer|lstm] [--seconds 90] [--repeats 2] [--json out.json]

The data is Multi30k English to German, raw, with a joint SentencePiece vocabulary of 8,000. The rate is the
number of target tokens per second after the warm-up, without padding and including the end of sentence.

    transformer  3 + 3 layers, width 256: seqloom, OpenNMT-py, Hugging Face's Seq2SeqTrainer and Joey NMT
    lstm         2 + 2 layers, width 320, bilinear attention, no input feeding: seqloom with fused kernels and
                 step by step, and Joey NMT (whose decoder computes step by step), also with a file ordered so
                 that its batches have similar lengths
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from command import Failures, run_command
from machine import Machine, describe, probe
from measure import Measurement
from ours import seqloom
from peers import huggingface, joeynmt, opennmt
from rich import box
from rich.console import Console
from rich.table import Table
from workload import LSTM, Model, Transformer, Workload, find_multi30k, flops_per_target_token, prepare_corpus


@dataclass(frozen=True)
class Limit:
    """Upper limit of the rate if training consisted only of the matrix products of the model."""

    matmul_flops: float  # per second
    flops_per_target_token: float

    @property
    def tokens_per_second(self) -> float:
        return self.matmul_flops / self.flops_per_target_token


@dataclass(frozen=True)
class Summary:
    """Runs of one toolkit: medians and the range of the rates."""

    name: str
    version: str
    tokens_per_second: float
    slowest: float
    fastest: float
    ratio: float  # of the first toolkit's rate to this one
    start_to_first_update: float
    peak_bytes: float
    tokens_per_update: float


Toolkit = Callable[[Workload, Path, Path], Measurement]

_TRANSFORMER, _LSTM = Transformer(), LSTM()
MODELS: dict[str, Model] = {"transformer": _TRANSFORMER, "lstm": _LSTM}
TOOLKITS: dict[str, dict[str, Toolkit]] = {
    "transformer": {
        "seqloom": partial(seqloom, _TRANSFORMER),
        "opennmt": partial(opennmt, _TRANSFORMER),
        "seqloom-2": partial(seqloom, _TRANSFORMER, name="seqloom, 2 processes", processes=2),
        "seqloom-2-sharded": partial(
            seqloom, _TRANSFORMER, name="seqloom, 2 processes, sharded", processes=2, shard=True
        ),
        "huggingface": partial(huggingface, _TRANSFORMER),
        "joeynmt": partial(joeynmt, _TRANSFORMER),
    },
    "lstm": {
        "seqloom": partial(seqloom, _LSTM),
        "seqloom-steps": partial(seqloom, replace(_LSTM, kernel="steps"), name="seqloom (steps)"),
        "joeynmt": partial(joeynmt, _LSTM),
        "joeynmt-sorted": partial(joeynmt, _LSTM, by_length=True),
    },
}


def compare(
    workload: Workload,
    toolkits: dict[str, Toolkit],
    environments: Path,
    work: Path,
    repeats: int,
    failures: Failures,
) -> tuple[list[Measurement], list[float], str]:
    """Run the toolkits in turn, `repeats` times; return measurements, matrix product rates, torch version."""
    measurements, rates, torch = [], [], ""
    for repeat in range(repeats):
        rate, torch = probe(workload.threads)
        rates.append(rate)
        for name, run in toolkits.items():
            if name in failures:
                continue
            folder = work / f"{name}-{repeat}"
            folder.mkdir()
            print(f"round {repeat + 1} of {repeats}: {name} …", file=sys.stderr, flush=True)
            with failures.collect(name):
                measurements.append(run(workload, environments, folder))
    return measurements, rates, torch


def summarise(measurements: list[Measurement]) -> list[Summary]:
    """Return one summary per toolkit in the order of the first runs, with ratios to the first toolkit."""
    summaries: list[Summary] = []
    for name in dict.fromkeys(m.name for m in measurements):
        runs = [m for m in measurements if m.name == name]
        rates = [m.tokens_per_second for m in runs]
        rate = statistics.median(rates)
        summaries.append(
            Summary(
                name=name,
                version=runs[0].version,
                tokens_per_second=rate,
                slowest=min(rates),
                fastest=max(rates),
                ratio=(summaries[0].tokens_per_second if summaries else rate) / rate,
                start_to_first_update=statistics.median(m.start_to_first_update for m in runs),
                peak_bytes=statistics.median(m.peak_bytes for m in runs),
                tokens_per_update=statistics.median(m.tokens_per_update for m in runs),
            )
        )
    return summaries


def show(machine: Machine, workload: Workload, limit: Limit, summaries: list[Summary]) -> None:
    """Print the machine, the table and the limit."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(
        f"{machine.cpu}, {machine.cores} cores, {machine.threads} threads, Python {machine.python}, "
        f"torch {machine.torch}, float32, {machine.date}"
    )
    console.print(
        f"{workload.seconds:g} s per run, of which the first {workload.warmup:g} s are a warm-up; "
        f"{workload.batch_tokens:,} tokens per batch, vocabulary {workload.corpus.vocabulary_size:,}"
    )
    table = Table("training", box=box.SIMPLE)
    for title in ("tokens/s", "range", "ratio", "of limit", "first update", "peak memory", "tokens/update"):
        table.add_column(title, justify="right")
    for row in summaries:
        table.add_row(
            f"{row.name} {row.version}",
            f"{row.tokens_per_second:,.0f}",
            f"{row.slowest:,.0f}–{row.fastest:,.0f}",
            f"{row.ratio:.2f}",
            f"{row.tokens_per_second / limit.tokens_per_second:.0%}",
            f"{row.start_to_first_update:.1f} s",
            f"{row.peak_bytes / 1e9:.2f} GB",
            f"{row.tokens_per_update:,.0f}",
        )
    console.print(table)
    console.print(
        f"tokens: target tokens without padding; ratio: rate of {summaries[0].name} to this one; first update: "
        "since the process started, for seqloom including tokenizer training (the others read tokenised text)"
    )
    console.print(
        f"limit {limit.tokens_per_second:,.0f} tokens/s: {limit.flops_per_target_token / 1e6:.1f} MFLOP per "
        f"target token including its source, at the {limit.matmul_flops / 1e9:.0f} GFLOPS of a 2,048³ product"
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--model",
        choices=sorted(MODELS),
        default="transformer",
        help="model (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="; ".join(f"for {model}: {', '.join(names)}" for model, names in TOOLKITS.items()),
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=90,
        help="training time per run (default: %(default)s)",
    )
    parser.add_argument(
        "--warmup",
        type=float,
        default=30,
        help="initial seconds to ignore (default: %(default)s)",
    )
    parser.add_argument("--repeats", type=int, default=2, help="runs per toolkit (default: %(default)s)")
    parser.add_argument(
        "--batch-tokens", type=int, default=4096, help="rows × longest side (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=2, help="number of threads (default: %(default)s)")
    parser.add_argument(
        "--environments", type=Path, default=Path.home() / ".cache" / "seqloom" / "peers", metavar="FOLDER"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements as JSON")
    options = parser.parse_args()
    names = list(TOOLKITS[options.model])
    unknown = [name for name in options.only or () if name not in names]
    if unknown:
        parser.error(f"--only {' '.join(unknown)}: choose from {', '.join(names)} for --model {options.model}")
    return options


def main() -> None:
    options = parse()
    model, toolkits = MODELS[options.model], TOOLKITS[options.model]
    chosen = {name: run for name, run in toolkits.items() if name in (options.only or toolkits)}
    failures = Failures()
    with tempfile.TemporaryDirectory(prefix="seqloom-benchmark-") as temporary:
        work = Path(temporary)
        corpus = prepare_corpus(find_multi30k(os.environ), work / "corpus", vocabulary=8000)
        workload = Workload(corpus, options.seconds, options.warmup, options.threads, options.batch_tokens)
        measurements, rates, torch = compare(
            workload, chosen, options.environments, work, options.repeats, failures
        )
    machine, summaries = describe(options.threads, torch), summarise(measurements)
    limit = Limit(statistics.median(rates), flops_per_target_token(model, corpus))
    show(machine, workload, limit, summaries)
    if options.json:
        report = {
            "machine": asdict(machine),
            "workload": {
                "model": asdict(model),
                "vocabulary": corpus.vocabulary_size,
                "label_smoothing": workload.label_smoothing,
                "batch_tokens": workload.batch_tokens,
                "seconds": options.seconds,
                "warmup": options.warmup,
            },
            "limit": {
                **asdict(limit),
                "tokens_per_second": limit.tokens_per_second,
                "matmul_flops_runs": rates,
            },
            "summary": [asdict(summary) for summary in summaries],
            "runs": [asdict(measurement) for measurement in measurements],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    failures.raise_if_any()


if __name__ == "__main__":
    run_command(main)
