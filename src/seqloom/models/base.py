"""Base classes of the models that are trained by gradient descent."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.nn.attention import WeightsName
from seqloom.types import Batch, Step, Tree, Vocabularies


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


class VectorModel(AutoregressiveModel):
    """A model of vectors or distributions: the decoder reads the previous one and writes the next one.

    The output layer has the numbers of a vector, and then the logit of the end. A distribution is the softmax
    of the numbers. Targets have no symbols, so no search over them is possible.
    """

    distributions: bool

    def check_targets(self, vocabularies: Vocabularies) -> None:
        """Raise unless the targets are vectors or distributions."""
        if vocabularies.outputs == "tokens":
            raise SeqloomError(
                f"{type(self).__name__} needs targets that are arrays, but these are text.",
                "set text.target_tokenizer=vectors or distributions, or use another model",
            )
        self.distributions = vocabularies.outputs == "distributions"

    def next_vector(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tensor, Tree]:
        """Return the next vectors (R, F), the probability of the end instead (R,), and the new state."""
        hidden, state, _ = self.step_hidden(memory, state, last)
        numbers, end = self.output(hidden).split((self.output.out_features - 1, 1), dim=-1)
        return numbers.softmax(-1) if self.distributions else numbers, end.squeeze(-1).sigmoid(), state
