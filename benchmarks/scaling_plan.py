"""A plan for training of WMT size: work, memory, traffic, hours and cost on 1, 8 and 64 GPUs, as Markdown.

    python benchmarks/scaling_plan.py [--rate 110e12] [--price 2] [--run RUN] [--json plan.json]

Counted: floating-point operations by the model's own prediction (`seqloom info --cost`), bytes of weights,
gradients and moments, and what a ring all-reduce of the gradients moves. Measured here: how long one processor
takes to choose the pairs of a batch, as every process does, and to put its own rows together; and, of the data
of a run, to tokenise it. Assumed, and to be given: the rate of a GPU, the network, the price.
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

from seqloom.config import compose
from seqloom.data.batching import batches_of, collate
from seqloom.data.encoding import Encoder
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.data.store import Tokens
from seqloom.inspect.cost import predict
from seqloom.registry import architecture
from seqloom.run import Run
from seqloom.types import Vocabularies

LENGTH = 30  # tokens of a sentence on each side: about the mean of WMT 2014 with a vocabulary of 37,000
VOCABULARY = 37_000
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Job:
    """What is trained: a model, and on how many tokens of target with as many of source."""

    name: str
    width: int
    ffn: int
    heads: int
    updates: int
    batch: int  # target tokens of an update

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
    """What is assumed of the machines."""

    rate: float  # operations per second that a GPU really does
    inside: float  # bytes per second and GPU within a host
    between: float  # bytes per second and host between hosts
    price: float  # of a GPU hour
    per_host: int = 8


@dataclass(frozen=True)
class Row:
    """One job on so many GPUs."""

    job: str
    gpus: int
    flops_per_token: float
    memory: float  # bytes of weights, gradients and moments in every GPU
    memory_sharded: float  # the same with train.shard
    traffic: float  # bytes that a GPU sends per update
    compute: float  # seconds of an update
    network: float
    batching: float  # seconds that every process takes to choose the batch of an update and make its rows
    hours: float
    cost: float
    limit: str  # what an update waits for


@dataclass(frozen=True)
class Batching:
    """Seconds of one processor per target token with its source token."""

    choosing: float  # which pairs are together, in every process
    collating: float  # ids, padded, of a process's own rows


def plan(job: Job, gpus: int, machine: Machine, batching: Batching) -> Row:
    """The arithmetic. Communication and batches are prepared beside the computation: the slowest one counts."""
    config = compose(None, job.options())
    model = architecture("transformer").build(config.model, Vocabularies(VOCABULARY, VOCABULARY, shared=True))
    total = predict(model, LENGTH).total
    flops = (total.cost.forward + total.cost.backward) / LENGTH
    weights = total.parameters * FLOAT
    traffic = 2 * (gpus - 1) / gpus * weights  # a ring sums, then hands the sums on
    slowest = machine.inside if gpus <= machine.per_host else machine.between  # a ring leaves a host once
    times = {
        "computing": job.batch * flops / gpus / machine.rate,
        "the network": traffic / slowest,
        "making batches": (batching.choosing + batching.collating / gpus) * job.batch,
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
        network=times["the network"],
        batching=times["making batches"],
        hours=hours,
        cost=hours * gpus * machine.price,
        limit=max(times, key=lambda name: times[name]),
    )


def measured(pairs: int = 65_536, batch_tokens: int = 25_000) -> Batching:
    """What it takes here, for a pool of so many pairs of any length up to twice the usual one."""
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


def tokenised(run: Run) -> float:
    """Target tokens per second with their sources that one processor tokenises of a run's own data."""
    config, report = run.config(), DataReport()
    pairs = list(islice(read_corpus(config.data, "train", report), 20_000))
    encoder = Encoder(run.tokenizers(), config.data.max_length, "drop")
    tokens = Tokens.of(pairs, encoder, report)
    return tokens.target_tokens(np.arange(len(tokens))) / shortest(lambda: Tokens.of(pairs, encoder, report))


def shortest(work: Callable[[], object]) -> float:
    """Seconds, the least of several: what else the machine does only adds to it."""
    times = []
    for _ in range(7):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    titles = ("model", "GPUs", "GB in each (sharded)", "GB sent per update", "computing", "network", "batches")
    titles += ("hours", "cost", "waits for")
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
    parser.add_argument("--rate", type=float, default=110e12, help="FLOP/s of a GPU (default: %(default)g)")
    parser.add_argument("--inside", type=float, default=200e9, help="bytes/s in a host (default: %(default)g)")
    parser.add_argument(
        "--between", type=float, default=12.5e9, help="bytes/s between hosts (default: %(default)g)"
    )
    parser.add_argument("--price", type=float, default=2.0, help="of a GPU hour (default: %(default)g)")
    parser.add_argument("--run", type=Path, help="whose training data is tokenised, too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    torch.manual_seed(1)
    machine = Machine(options.rate, options.inside, options.between, options.price)
    batching = measured()
    rows = [plan(job, gpus, machine, batching) for job in JOBS for gpus in (1, 8, 64)]
    print(table(rows))
    choosing, collating = (1 / seconds / 1e6 for seconds in (batching.choosing, batching.collating))
    print(
        f"\nmillion target tokens per second of one processor: {choosing:.0f} chosen, {collating:.0f} collated"
    )
    if options.run:
        print(f"{tokenised(Run(options.run)) / 1e6:.2f} tokenised")
    if options.json:
        report = {"machine": asdict(machine), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
