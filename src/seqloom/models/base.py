"""Base classes of the models that are trained by gradient. What they share is written once, here."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from seqloom.types import Batch, Step, Tree


class SequenceModel(nn.Module, ABC):
    """A model whose distribution at every position is the softmax of an output layer."""

    output: nn.Linear

    @abstractmethod
    def hidden(self, batch: Batch) -> Tensor:
        """Return what the output layer sees at every position under teacher forcing, (B, T, D)."""

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits, (B, T, V)."""
        return self.output(self.hidden(batch))


class AutoregressiveModel(SequenceModel):
    """A StepModel: p(y_t | y_<t, x) for all t at once in `hidden`, one t at a time in `step`."""

    reads_trees: bool = False  # whether it needs the dependency tree of every source

    @abstractmethod
    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return the memory of B sentences and the state of B rows, before any target token."""

    @abstractmethod
    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """Return what the output layer sees after one more token (R, D), the new state and the attention."""

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """Extend every row by its last token, (R,)."""
        hidden, state, attention = self.step_hidden(memory, state, last)
        return Step(self.output(hidden).log_softmax(-1), state, attention)

    def max_target_length(self, source_length: int) -> int | None:
        """Return how many tokens a target of such a source can have, the end included; None: no limit."""
        return None
