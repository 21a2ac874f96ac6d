"""Training of small models on generated pairs of ids, for experiments that train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import torch

from seqloom.data.batching import collate_ids
from seqloom.labs.framework.models import untrained_model
from seqloom.models.base import SequenceModel
from seqloom.training.config import TrainConfig
from seqloom.training.loss import LossModule
from seqloom.training.optimizer import Updater
from seqloom.types import UNK, Batch

FIRST = UNK + 1  # id of the first symbol
DIGITS = 10
Pair = tuple[Sequence[int], Sequence[int]]  # ids of source and target, from FIRST, without the end


def pairs_batch(pairs: Sequence[Pair]) -> Batch:
    """Return a batch of pairs."""
    sources, targets = zip(*pairs, strict=True)
    return collate_ids(sources, targets, range(len(pairs)))


def train(
    model: SequenceModel,
    draw: Callable[[Random], Pair],
    *,
    steps: int,
    seed: int,
    rate: float = 3e-3,
    pairs: int = 64,
    warmup: int = 20,
) -> SequenceModel:
    """Train a model with AdamW on `pairs` new pairs per step; the learning rate falls to zero."""
    random = Random(seed)
    loss = LossModule(model, smoothing=0.0, precision="float32")
    updater = Updater(model, TrainConfig.model_validate({"clip": 1.0}))
    model.train()
    for step in range(steps):
        batch = pairs_batch([draw(random) for _ in range(pairs)])
        loss(batch).total.backward()
        updater.update(batch.target_tokens, rate * min((step + 1) / warmup, 1 - step / steps))
    return model.eval()


def copy_pair(random: Random, *, longest: int, shortest: int = 1) -> Pair:
    """Draw digits; the target is the same digits."""
    row = [FIRST + random.randrange(DIGITS) for _ in range(random.randint(shortest, longest))]
    return row, row


@torch.no_grad()
def token_accuracy(model: SequenceModel, pairs: Sequence[Pair], *, after: int = 0) -> float:
    """Return the share of target symbols that have the highest probability, given the correct ones before.

    The first `after` symbols of a target do not count.
    """
    batch = pairs_batch(pairs)
    assert batch.target_out is not None
    counted = batch.target_out >= FIRST
    counted[:, :after] = False
    predicted = model.output(model.hidden(batch)).argmax(dim=-1)
    return float((predicted == batch.target_out)[counted].double().mean())


def copy_accuracies(
    name: str, *, seed: int, width: int, steps: int, longest: int, lengths: Sequence[int]
) -> list[float]:
    """Train a recurrent model with one layer to copy up to `longest` digits; return its accuracy by length."""
    model = untrained_model(name, vocabulary=FIRST + DIGITS, seed=seed, width=width, layers=1)
    train(model, partial(copy_pair, longest=longest), steps=steps, seed=seed, rate=5e-3, pairs=48)
    return [token_accuracy(model, copy_pairs(length)) for length in lengths]


def copy_pairs(length: int, count: int = 200) -> list[Pair]:
    """Return test pairs of this length."""
    random = Random(0)
    return [copy_pair(random, longest=length, shortest=length) for _ in range(count)]
