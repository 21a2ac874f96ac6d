"""Estimated compute, memory, traffic, hours and cost of WMT-size training on 1, 8 and 64 GPUs.

    python benchmarks/scaling_plan.py [--rate 110e12] [--price 2] [--run RUN] [--json plan.json]

Computed: the FLOPs of the model (as in `seqloom info --cost`), the bytes of weights, gradients and moments, and
the traffic of a ring all-reduce of the gradients. Measured: the time of one processor to select the pairs of a
batch (in every process) and to collate its own rows, and with --run to tokenise the data of a run. Assumed, and
set by options: the rate of a GPU, the network bandwidth and the price.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from command import run_command

from seqloom.data.batching import batches_of, collate
from seqloom.data.encoding import Numericalizer
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.data.store import Tokens
from seqloom.inspect.cost import predict
from seqloom.run.build import build_neural
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.types import Vocabularies

LENGTH = 30  # tokens per sentence and side: about the mean of WMT 2014 with a vocabulary of 37,000
VOCABULARY = 37_000
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Job:
    """A model and the amount of its training; source and target have the same number of tokens."""

    name: str
    width: int
    ffn: int
    heads: int
    updates: int
    batch: int  # target tokens per update

    def options(self) -> dict[str, object]:
        sizes = {"width": self.width, "ffn": self.ffn, "heads": self.heads, "layers": 6}
        return {"model.name": "transformer", **{f"model.{name}": value for name, value in sizes.items()}}


# Steps and batches of Vaswani et al. 2017, section 5; the large batch of Ott et al. 2018, arXiv:1806.00187.
JOBS = (
    Job("base", 512, 2048, 8, 100_000, 25_000),
    Job("big", 1024, 4096, 16, 300_000, 25_000),
    Job("big, large batches", 1024, 4096, 16, 19_000, 400_000),
)


@dataclass(frozen=True)
class Machine:
    """Assumptions about the machines."""

    rate: float  # FLOP/s that a GPU achieves
    inside: float  # bytes/s per GPU within a host
    between: float  # bytes/s per host between hosts
    price: float  # per GPU hour
    per_host: int = 8


@dataclass(frozen=True)
class Row:
    """A job on a given number of GPUs."""

    job: str
    gpus: int
    flops_per_token: float
    memory: float  # bytes of weights, gradients and moments per GPU
    memory_sharded: float  # the same with train.shard
    traffic: float  # bytes sent per GPU and update
    compute: float  # seconds per update
    network: float
    batching: float  # seconds per update and process to select and collate a batch
    hours: float
    cost: float
    limit: str  # the slowest part of an update


@dataclass(frozen=True)
class Batching:
    """CPU seconds per target token, including its source token."""

    choosing: float  # select the pairs of a batch, in every process
    collating: float  # build the padded ids of the rows of one process


def plan(job: Job, gpus: int, machine: Machine, batching: Batching) -> Row:
    """Return the estimate. Computation, communication and batching overlap, so the slowest one counts."""
    config = compose(None, job.options())
    model = build_neural(config.model, Vocabularies(VOCABULARY, VOCABULARY, shared=True))
    total = predict(model, LENGTH).total
    flops = (total.cost.forward + total.cost.backward) / LENGTH
    weights = total.parameters * FLOAT
    traffic = 2 * (gpus - 1) / gpus * weights  # ring all-reduce: reduce-scatter, then all-gather
    slowest = (
        machine.inside if gpus <= machine.per_host else machine.between
    )  # a ring has one link between two hosts
    times = {
        "computing": job.batch * flops / gpus / machine.rate,
        "network": traffic / slowest,
        "batching": (batching.choosing + batching.collating / gpus) * job.batch,
    }
    hours = max(times.values()) * job.updates / 3600
    return Row(
        job=job.name,
        gpus=gpus,
        flops_per_token=flops,
        memory=4 * weights,
        memory_sharded=4 * weights / gpus,
        traffic=traffic,
        compute=times["computing"],
        network=times["network"],
        batching=times["batching"],
        hours=hours,
        cost=hours * gpus * machine.price,
        limit=max(times, key=lambda name: times[name]),
    )


def measure_batching(pairs: int = 65_536, batch_tokens: int = 25_000) -> Batching:
    """Measure batching on this machine for random pairs of up to twice the mean length."""
    random = np.random.default_rng(1)
    lengths = {side: random.integers(1, 2 * LENGTH - 1, pairs) for side in ("source", "target")}
    ids = {side: random.integers(4, VOCABULARY, of.sum(), "<u2") for side, of in lengths.items()}
    tokens = Tokens(ids, {side: np.cumsum([0, *of]) for side, of in lengths.items()}, features=0)
    batches = batches_of(tokens, [range(pairs)], batch_tokens, random)
    seconds = (
        shortest(lambda: batches_of(tokens, [range(pairs)], batch_tokens, random)),
        shortest(lambda: [collate(tokens, indices) for indices in batches]),
    )
    return Batching(*(spent / tokens.target_tokens(np.arange(pairs)) for spent in seconds))


def tokenisation_rate(run: Run) -> float:
    """Return the target tokens per second (including sources) that one processor tokenises of a run's data."""
    config, report = run.config(), DataReport()
    pairs = list(islice(read_corpus(config.data, "train", report), 20_000))
    encoder = Numericalizer(run.tokenizers(), config.data.max_length, "drop")
    tokens = Tokens.of(pairs, encoder, report)
    return tokens.target_tokens(np.arange(len(tokens))) / shortest(lambda: Tokens.of(pairs, encoder, report))


def shortest(work: Callable[[], object]) -> float:
    """Return the shortest of several times, in seconds: other load only adds to it."""
    times = []
    for _ in range(7):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    titles = [
        *("model", "GPUs", "GB per GPU (sharded)", "GB sent per update"),
        *("computing", "network", "batching", "hours", "cost", "limited by"),
    ]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        lines.append(
            f"| {row.job} | {row.gpus} | {row.memory / 1e9:.2f} ({row.memory_sharded / 1e9:.2f}) "
            f"| {row.traffic / 1e9:.2f} | {1000 * row.compute:,.0f} ms | {1000 * row.network:,.0f} ms "
            f"| {1000 * row.batching:,.0f} ms | {row.hours:,.1f} | {row.cost:,.0f} | {row.limit} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--rate", type=float, default=110e12, help="FLOP/s per GPU (default: %(default)g)")
    parser.add_argument(
        "--inside",
        type=float,
        default=200e9,
        help="bytes/s within a host (default: %(default)g)",
    )
    parser.add_argument(
        "--between", type=float, default=12.5e9, help="bytes/s between hosts (default: %(default)g)"
    )
    parser.add_argument("--price", type=float, default=2.0, help="price per GPU hour (default: %(default)g)")
    parser.add_argument("--run", type=Path, help="also measure tokenising the training data of this run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    options = parser.parse_args()
    torch.manual_seed(1)
    machine = Machine(options.rate, options.inside, options.between, options.price)
    batching = measure_batching()
    rows = [plan(job, gpus, machine, batching) for job in JOBS for gpus in (1, 8, 64)]
    print(table(rows))
    choosing, collating = (1 / seconds / 1e6 for seconds in (batching.choosing, batching.collating))
    print(
        f"\nmillion target tokens per second and processor: {choosing:.0f} selected, {collating:.0f} collated"
    )
    if options.run:
        print(f"{tokenisation_rate(Run(options.run)) / 1e6:.2f} tokenised")
    if options.json:
        report = {"machine": asdict(machine), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
