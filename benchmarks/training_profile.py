"""Profile of training by kind of operation: an update of seqloom and of a plain PyTorch loop.

    python benchmarks/training_profile.py [--steps 12] [--threads 2] [--json out.json]

The model is that of benchmarks/train.py (Transformer, 3 + 3 layers, width 256). Batches have the sentence
lengths of Multi30k and random words. The plain loop is the straightforward implementation:
torch.nn.Transformer, CrossEntropyLoss over all logits, AdamW with defaults, clip_grad_norm_. Both use the same
batches.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from command import run_command
from machine import describe, probe
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from workload import Transformer, find_multi30k, flops_per_target_token, prepare_corpus

from seqloom.data.batching import collate_ids
from seqloom.nn.positions import sinusoids
from seqloom.run.build import build_neural
from seqloom.run.config import compose
from seqloom.system import keep_freed_memory
from seqloom.training.loss import LossModule
from seqloom.training.optimizer import Updater
from seqloom.types import PAD, Batch, Vocabularies

T = TypeVar("T")

SHAPE, SMOOTHING, BATCH_TOKENS = Transformer(), 0.1, 4096
KINDS = {  # the first kind with a matching part of the operator name
    "attention": ("scaled_dot_product", "flash", "baddbmm"),
    "matrix products": ("::mm", "addmm", "bmm", "matmul", "linear"),
    "dropout": ("dropout", "bernoulli", "random_", "_Dropout"),
    "softmax and loss": ("softmax", "nll_loss", "_CrossEntropy", "gather", "scatter_add", "logsumexp"),
    "layer norm": ("layer_norm",),
    "optimiser and clipping": ("adam", "norm", "addcdiv", "addcmul", "lerp", "_foreach"),
    "embedding": ("embedding", "index"),
}
OTHER = "additions, copies and the rest"


def batches(lengths: Sequence[tuple[int, int]], vocabulary: int, count: int) -> list[Batch]:
    """Return random batches of similar length within the token budget."""
    draw = random.Random(1)
    groups: list[list[tuple[int, int]]] = [[]]
    for pair in sorted(lengths, key=lambda pair: pair[::-1]):
        widest = max(*pair, *(max(other) for other in groups[-1]), 1)
        if groups[-1] and (len(groups[-1]) + 1) * widest > BATCH_TOKENS:
            groups.append([])
        groups[-1].append(pair)

    def words(length: int) -> list[int]:
        return [draw.randrange(4, vocabulary) for _ in range(length - 1)]  # the end of sentence is added later

    chosen = draw.sample(groups, count)
    return [
        collate_ids([words(s) for s, _ in group], [words(t) for _, t in group], range(len(group)))
        for group in chosen
    ]


class Plain(nn.Module):
    """A Transformer from torch.nn modules."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, SHAPE.width, padding_idx=PAD)
        self.transformer = nn.Transformer(
            SHAPE.width, SHAPE.heads, SHAPE.layers, SHAPE.layers, SHAPE.ffn, SHAPE.dropout, batch_first=True,
            norm_first=True,
        )  # fmt: skip
        self.dropout = nn.Dropout(SHAPE.dropout)
        self.output = nn.Linear(SHAPE.width, vocabulary)
        self.output.weight = self.embedding.weight
        self.register_buffer("positions", sinusoids(torch.arange(512), SHAPE.width))

    def _embed(self, ids: Tensor) -> Tensor:
        table: Any = self.positions
        embedded: Tensor = self.dropout(self.embedding(ids) * SHAPE.width**0.5 + table[: ids.shape[1]])
        return embedded

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        logits: Tensor = self.output(hidden)
        return logits


def plain_update(vocabulary: int) -> Callable[[Batch], None]:
    """Return the update function of the plain loop."""
    model = Plain(vocabulary)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss_of = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)

    def update(batch: Batch) -> None:
        assert batch.target_in is not None and batch.target_out is not None
        logits = model(batch.source, batch.target_in)
        loss = loss_of(logits.flatten(0, 1), batch.target_out.flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return update


def our_update(vocabulary: int) -> Callable[[Batch], None]:
    """Return the update function of seqloom."""
    sizes = {"width": SHAPE.width, "layers": SHAPE.layers, "heads": SHAPE.heads, "ffn": SHAPE.ffn}
    options = {f"model.{name}": value for name, value in (sizes | {"dropout": SHAPE.dropout}).items()}
    config = compose(None, {"model.name": SHAPE.name, **options})
    model = build_neural(config.model, Vocabularies(vocabulary, vocabulary, shared=True))
    updater, loss_module = Updater(model, config.train), LossModule(model, SMOOTHING, "float32")

    def update(batch: Batch) -> None:
        torch.autograd.backward(loss_module(batch).total)
        updater.update(batch.target_tokens, 1e-4)

    return update


def kind_of(operator: str, kinds: Mapping[str, Sequence[str]]) -> str:
    """Return the kind of an operator."""
    for kind, parts in kinds.items():
        if any(part in operator for part in parts):
            return kind
    return OTHER


def profile_kinds(
    work: Callable[[T], object], data: Sequence[T], kinds: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Return the CPU seconds per data item by kind of operation."""
    seconds: dict[str, float] = defaultdict(float)
    with profile(activities=[ProfilerActivity.CPU]) as record:
        for item in data:
            work(item)
    for event in record.key_averages():
        seconds[kind_of(event.key, kinds)] += event.self_cpu_time_total / 1e6 / len(data)
    return dict(seconds)


def rate(update: Callable[[Batch], None], data: Sequence[Batch]) -> float:
    """Return target tokens per second (without padding), measured without the profiler."""
    began = time.perf_counter()
    for batch in data:
        update(batch)
    return sum(batch.target_tokens for batch in data) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--steps", type=int, default=12, help="updates per loop (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="number of threads (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements as JSON")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory(prefix="seqloom-profile-") as folder:
        corpus = prepare_corpus(find_multi30k(os.environ), Path(folder) / "corpus", vocabulary=8000)
    data = batches(corpus.lengths, corpus.vocabulary_size, options.steps)
    makers = {"plain loop": plain_update, "seqloom": our_update}
    rates, shares = {}, {}
    for name, make in makers.items():  # the plain loop first, because keep_freed_memory() cannot be undone
        if name == "seqloom":
            keep_freed_memory()
        update = make(corpus.vocabulary_size)
        rate(update, data[:3])
        rates[name] = statistics.median(rate(update, data) for _ in range(3))
        shares[name] = profile_kinds(update, data, KINDS)
    machine = describe(options.threads, torch.__version__)
    print(f"{machine.cpu}, {machine.threads} threads, torch {machine.torch}, {machine.date}\n")
    print(table(shares))
    print(", ".join(f"{name} {value:,.0f}" for name, value in rates.items()), "target tokens per second")
    flops, _ = probe(options.threads)
    tokens = statistics.mean(batch.target_tokens for batch in data)
    least = tokens * flops_per_target_token(SHAPE, corpus) / flops
    alone, together = limits(shares["seqloom"], least)
    print(
        f"limit at the {flops / 1e9:.0f} GFLOPS of a 2,048³ product: seqloom reaches {together:.0%} of it; "
        f"with only matrix products and attention, it would reach {alone:.0%}"
    )
    if options.json:
        report = {
            "machine": asdict(machine),
            "tokens_per_second": rates,
            "seconds_per_update": shares,
            "matmul_flops": flops,
            "seconds_at_the_limit": least,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def limits(shares: Mapping[str, float], least: float) -> tuple[float, float]:
    """Return the share of the limit with products and attention only, and with everything.

    An update at the limit takes `least` seconds.
    """
    return least / (shares["matrix products"] + shares["attention"]), least / sum(shares.values())


def table(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Return milliseconds and percentages by kind as a Markdown table."""
    heads = "".join(f" {name} | |" for name in shares)
    lines = [f"| per update |{heads}", "|---|" + "---|---|" * len(shares)]
    for kind in (*KINDS, OTHER):
        cells = ((kinds.get(kind, 0.0), sum(kinds.values())) for kinds in shares.values())
        lines.append(
            f"| {kind} |" + "".join(f" {1000 * part:,.0f} ms | {part / all_:.0%} |" for part, all_ in cells)
        )
    totals = "".join(f" {1000 * sum(kinds.values()):,.0f} ms | |" for kinds in shares.values())
    return "\n".join([*lines, f"| all |{totals}", ""])


if __name__ == "__main__":
    run_command(main)
