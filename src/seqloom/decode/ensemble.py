"""Ensembles: models with the same target vocabulary that vote on every token."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from seqloom.decode.shortlist import Shortlist
from seqloom.decode.torch_translator import Encoded, TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.types import Batch, Step, StepModel, Tree

Space = Literal["probability", "log"]


class Ensemble(StepModel):
    """StepModel whose distribution is the weighted mean of its members' distributions.

    In probability space, p = Σ wᵢ pᵢ: a token is likely if it is likely for any member. In log space,
    log p = Σ wᵢ log pᵢ + constant: a token is likely if it is unlikely for no member.
    """

    def __init__(
        self,
        members: Sequence[StepModel],
        *,
        weights: Sequence[float] | None = None,
        space: Space = "probability",
        other_batches: Sequence[Batch] = (),
    ) -> None:
        given = list(weights or [1.0] * len(members))
        assert len(given) == len(members) and min(given) > 0
        self._members, self._space = list(members), space
        self._weights = [weight / sum(given) for weight in given]
        self.reads_trees = any(member.reads_trees for member in members)
        # The same sentences, tokenised for the second, third, ... member.
        self._other_batches = list(other_batches)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        batches = [batch, *(self._other_batches or [batch] * (len(self._members) - 1))]
        started = [member.start(own) for member, own in zip(self._members, batches, strict=True)]
        return [memory for memory, _ in started], [state for _, state in started]

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        steps = [
            member.step(own_memory, own_state, last)
            for member, own_memory, own_state in zip(self._members, memory, state, strict=True)
        ]
        log_probs = self._mean([step.log_probs for step in steps])
        return Step(log_probs, [step.state for step in steps], self._attention(steps))

    def max_target_length(self, source_length: int) -> int | None:
        limits = [member.max_target_length(source_length) for member in self._members]
        return min((limit for limit in limits if limit is not None), default=None)

    def _mean(self, log_probs: list[Tensor]) -> Tensor:
        if self._space == "probability":
            weighted = [log + math.log(weight) for log, weight in zip(log_probs, self._weights, strict=True)]
            return torch.stack(weighted).logsumexp(dim=0)
        total = sum(log * weight for log, weight in zip(log_probs, self._weights, strict=True))
        assert isinstance(total, Tensor)
        return total.log_softmax(dim=-1)

    def _attention(self, steps: list[Step]) -> Tensor | None:
        """Return the members' mean attention as one head, or the first member's if their sources differ."""
        if self._other_batches:
            return steps[0].attention
        found = [
            (step.attention.mean(dim=(1, 2), keepdim=True), weight)
            for step, weight in zip(steps, self._weights, strict=True)
            if step.attention is not None
        ]
        if not found:
            return None
        share = sum(weight for _, weight in found)
        return torch.stack([attention * (weight / share) for attention, weight in found]).sum(dim=0)


class EnsembleTranslator(TorchTranslator):
    """Translator with several models of one target vocabulary; the first one's search options apply.

    A member with a different source vocabulary reads the lines with its own tokenizer.
    """

    def __init__(
        self,
        members: Sequence[TorchTranslator],
        *,
        weights: Sequence[float] | None = None,
        space: Space = "probability",
    ) -> None:
        first, *rest = members
        targets = {member.tokenizers.target.fingerprint for member in members}
        assert len(targets) == 1, "the members have different target vocabularies"
        self._members = list(members)
        self._ensemble = partial(Ensemble, weights=weights, space=space)
        models = [member.model for member in members]
        super().__init__(
            self._ensemble(models),
            first.tokenizers,
            first.search,
            first.device,
            length_ratio=first.length_ratio,
        )
        sources = {member.tokenizers.reader.fingerprint for member in members}
        self._other_readers = rest if len(sources) > 1 else []

    def shortlist(self) -> Shortlist:
        """Return the shortlist that all members share."""
        tables = [member.shortlist() for member in self._members]
        if len({table.digest for table in tables}) > 1:
            raise SeqloomError(
                "The runs of the ensemble have different shortlists.",
                "run seqloom shortlist with the same options and data for each, or leave out search.shortlist",
            )
        return tables[0]

    def _model(self, encoded: Sequence[Encoded], narrow: Callable[[StepModel], StepModel]) -> StepModel:
        models = [narrow(member.model) for member in self._members]
        requests = [one.request for one in encoded]
        other_batches = [member.batch(member.encode(requests, self.search)) for member in self._other_readers]
        return self._ensemble(models, other_batches=other_batches)
