"""Training speed and memory of a model on this machine, measured on random batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from seqloom.data.batching import collate_ids
from seqloom.run.build import build_neural, choose_device
from seqloom.run.config import Config
from seqloom.run.planner.facts import DataFacts, SideFacts
from seqloom.training.loss import LossModule
from seqloom.training.optimizer import Updater
from seqloom.training.run_log import peak_memory_mb
from seqloom.types import Batch, Vocabularies

SECONDS = 6.0  # of one measurement; a plan makes at most three
_SPECIAL = 8  # ids of BOS, EOS, PAD, UNK and a few tags
_TOKENS_PER_WORD = 1.4  # subwords of a word, on average
_WARM = 2  # first updates, which are slower


@dataclass(frozen=True)
class Speed:
    """Measured training speed."""

    updates_per_second: float
    target_tokens_per_second: float
    rows: int  # pairs of an update
    parameters: int
    memory_mb: float  # peak of this process
    threads: int


def measure_speed(config: Config, data: DataFacts, seconds: float | None = None) -> Speed:
    """Train the model of a configuration on random batches of the data's lengths for a few seconds."""
    seconds = SECONDS if seconds is None else seconds
    device = choose_device(config.train.device)
    with torch.random.fork_rng(devices=[]), _threads(config.train.threads) as threads:
        torch.manual_seed(0)
        vocabularies = _vocabularies(config, data)
        model = build_neural(config.model, vocabularies).to(device).train()
        loss_module = LossModule(model, config.train.label_smoothing, config.train.precision)
        updater = Updater(model, config.train)
        batch = _random_batch(vocabularies, _lengths(config, data), config.train.batch_tokens).to(device)
        count, started = 0, 0.0
        while count < _WARM + 1 or time.monotonic() - started < seconds:
            if count == _WARM:
                started = time.monotonic()
            loss_module(batch).total.backward()
            updater.update(batch.target_tokens, config.train.learning_rate).norm.item()  # waits for the device
            count += 1
        elapsed = time.monotonic() - started
    updates = (count - _WARM) / elapsed / config.train.accumulate
    parameters = sum(weight.numel() for weight in model.parameters())
    return Speed(
        updates_per_second=updates,
        target_tokens_per_second=updates * batch.target_tokens * config.train.accumulate,
        rows=len(batch.source) * config.train.accumulate,
        parameters=parameters,
        memory_mb=peak_memory_mb(),
        threads=threads,
    )


@contextmanager
def _threads(threads: int | None) -> Iterator[int]:
    """Use the threads of the training, by default those of the process, and yield their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield threads or before
    finally:
        torch.set_num_threads(before)


def rows_per_update(config: Config, data: DataFacts) -> int:
    """Return the expected number of pairs of an update."""
    return _rows(max(_lengths(config, data)), config.train.batch_tokens) * config.train.accumulate


def _lengths(config: Config, data: DataFacts) -> tuple[float, float]:
    """Return the expected number of tokens of a source and of a target, with EOS."""
    source_kind, target_kind = config.text.kinds
    source = _tokens(data.source, target_kind if source_kind == "frames" else source_kind)
    return source + data.tags_per_line, _tokens(data.target, target_kind)


def _rows(length: float, batch_tokens: int) -> int:
    return max(1, batch_tokens // max(1, round(length)))


def _vocabularies(config: Config, data: DataFacts) -> Vocabularies:
    limit, joint = config.text.vocab_size, config.text.is_joint
    source_kind, target_kind = config.text.kinds
    target = _symbols(data.target, target_kind, limit)
    source = _symbols(data.source, target_kind if source_kind == "frames" else source_kind, limit)
    if joint:
        source = target = max(source, target)
    return Vocabularies(source + data.tags, target + joint * data.tags, joint)


def _symbols(side: SideFacts, kind: str, limit: int) -> int:
    """Return the expected size of a vocabulary."""
    known = {"char": len(side.alphabet), "word": side.vocabulary}.get(kind, limit)
    return min(known, limit) + _SPECIAL


def _tokens(side: SideFacts, kind: str) -> float:
    """Return the expected number of tokens of a line, with EOS."""
    return 1 + {"char": side.characters, "word": side.words}.get(kind, _TOKENS_PER_WORD * side.words)


def _random_batch(vocabularies: Vocabularies, lengths: tuple[float, float], batch_tokens: int) -> Batch:
    """Return a batch without padding of lines of these lengths."""
    rows = _rows(max(lengths), batch_tokens)
    random = np.random.default_rng(0)
    sources, targets = (
        [random.integers(_SPECIAL // 2, size, max(1, round(length) - 1)).tolist() for _ in range(rows)]
        for length, size in zip(lengths, (vocabularies.source, vocabularies.target), strict=True)
    )
    return collate_ids(sources, targets, range(rows))
