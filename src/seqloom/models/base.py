"""Base classes of the models that are trained by gradient descent."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from seqloom.nn.attention import WeightsName
from seqloom.types import Batch, Step, Tree


class SequenceModel(nn.Module, ABC):
    """A model whose distribution at every position is the softmax of an output layer."""

    output: nn.Linear

    @abstractmethod
    def hidden(self, batch: Batch) -> Tensor:
        """Return the inputs of the output layer under teacher forcing, (B, T, D)."""

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits, (B, T, V)."""
        return self.output(self.hidden(batch))


class AutoregressiveModel(SequenceModel):
    """A StepModel: p(y_t | y_<t, x) for all t at once in `hidden`, one t at a time in `step`."""

    reads_trees: bool = False  # whether every source needs a dependency tree
    attention_weights: WeightsName = "softmax"

    @abstractmethod
    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return the memory of B sentences and the state of B rows, before any target token."""

    @abstractmethod
    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """Return the input of the output layer after one more token (R, D), the new state and the attention."""

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """Extend every row by its last token, (R,).

        Raw weights are not a distribution, as search and alignment require, so they are not returned.
        """
        hidden, state, attention = self.step_hidden(memory, state, last)
        shown = attention if self.attention_weights == "softmax" else None
        return Step(self.output(hidden).log_softmax(-1), state, shown)

    def max_target_length(self, source_length: int) -> int | None:
        """Return the maximum target length for a source length, EOS included; None: no limit."""
        return None
