"""Model whose next-token distributions are a table, for experiments on search."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.types import EOS, UNK, Batch, Step, StepModel, Tree

WORDS = UNK + 1  # id of the first word


class TableModel(StepModel):
    """Log probabilities of the next token by sentence, step and last token: (N, T, V, V).

    Sentence number n is the batch with the source id n. `continued` counts the different hypotheses that were
    continued: a beam wider than their number is filled with repeated and impossible rows.
    """

    def __init__(self, log_probs: Tensor) -> None:
        self.log_probs = log_probs
        self.continued = 0

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        zeros = torch.zeros(len(batch.source), dtype=torch.long)
        return batch.source[:, 0], (zeros, zeros, zeros == 0)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        sentence = memory.repeat_interleave(len(last) // len(memory))
        step, path, possible = state  # a path is the number whose digits are the tokens
        vocabulary = self.log_probs.shape[-1]
        if (step > 0).all():
            log_probs = self.log_probs[sentence, step - 1, path % vocabulary, last]
            possible = possible & (last != EOS) & (log_probs > -torch.inf)
        path = path * vocabulary + last
        self.continued += torch.unique(torch.stack((sentence, path))[:, possible], dim=1).shape[1]
        return Step(self.log_probs[sentence, step, last].clone(), (step + 1, path, possible), None)

    def max_target_length(self, source_length: int) -> int | None:
        return self.log_probs.shape[1]

    def sentence(self, number: int) -> Batch:
        """Return the batch of one sentence."""
        return Batch(source=torch.tensor([[number]]), source_lengths=torch.tensor([1]), index=torch.tensor([0]))
