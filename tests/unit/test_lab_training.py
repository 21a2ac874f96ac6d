"""Training of the labs, against independent loops and counts."""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from seqloom.labs.framework.models import untrained_model
from seqloom.labs.framework.table_model import WORDS, TableModel
from seqloom.labs.framework.training import FIRST, Pair, copy_pair, pairs_batch, token_accuracy, train
from seqloom.models.base import SequenceModel
from seqloom.types import EOS, PAD, Batch


def draw(random: Random) -> Pair:
    return copy_pair(random, longest=4)


def test_training_equals_a_plain_loop() -> None:
    def model() -> SequenceModel:
        return untrained_model("lstm-last", vocabulary=14, seed=1, width=8, layers=1)

    trained, plain = train(model(), draw, steps=5, seed=3, pairs=4, warmup=2, rate=0.01), model().train()
    random, optimizer = Random(3), torch.optim.AdamW(plain.parameters(), betas=(0.9, 0.98), weight_decay=0)
    for step in range(5):
        batch = pairs_batch([draw(random) for _ in range(4)])
        assert batch.target_out is not None
        logits = plain.output(plain.hidden(batch)).flatten(0, 1)
        loss = cross_entropy(logits, batch.target_out.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = 0.01 * min((step + 1) / 2, 1 - step / 5)
        optimizer.step()
    for one, other in zip(trained.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


class Constant(SequenceModel):
    """Model that always predicts the first symbol."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(1, FIRST + 10)
        nn.init.zeros_(self.output.weight)
        self.output.bias.data = nn.functional.one_hot(torch.tensor(FIRST), FIRST + 10).float()

    def hidden(self, batch: Batch) -> Tensor:
        assert batch.target_out is not None
        return torch.zeros(*batch.target_out.shape, 1)


def test_accuracy_counts_symbols_and_neither_ends_nor_padding() -> None:
    pairs: list[Pair] = [([FIRST], [FIRST, FIRST, FIRST + 1]), ([FIRST], [FIRST + 1])]
    assert token_accuracy(Constant(), pairs) == pytest.approx(2 / 4)
    assert token_accuracy(Constant(), pairs, after=1) == pytest.approx(1 / 2)


def test_the_table_model_counts_different_possible_hypotheses() -> None:
    size = WORDS + 2
    log_probs = torch.full((1, 3, size, size), -torch.inf)
    log_probs[..., WORDS:], log_probs[..., EOS] = -1.0, -1.0
    model = TableModel(log_probs)
    memory, state = model.start(model.sentence(0))
    step = model.step(memory, state, torch.tensor([1]))
    assert model.continued == 1
    rows = [torch.cat([part] * 4) for part in step.state]
    model.step(memory, tuple(rows), torch.tensor([WORDS, WORDS, WORDS + 1, EOS]))
    assert model.continued == 3  # two of four: one is repeated, and one has ended
