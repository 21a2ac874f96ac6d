"""Several models that vote on every token: any models whose target vocabulary is the same."""

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
    """A StepModel whose distribution is the members' weighted mean.

    In probability space p = Σ wᵢ pᵢ: a token is likely if any member finds it so. In log space
    log p = Σ wᵢ log pᵢ + constant: a token is likely if no member objects.
    """

    def __init__(
        self,
        members: Sequence[StepModel],
        *,
        weights: Sequence[float] | None = None,
        space: Space = "probability",
        others: Sequence[Batch] = (),
    ) -> None:
        given = list(weights or [1.0] * len(members))
        assert len(given) == len(members) and min(given) > 0
        self._members, self._space = list(members), space
        self._weights = [weight / sum(given) for weight in given]
        self.reads_trees = any(member.reads_trees for member in members)
        self._others = list(others)  # the same sentences as the second, third … member's tokenizer has them

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        batches = [batch, *(self._others or [batch] * (len(self._members) - 1))]
        begun = [member.start(own) for member, own in zip(self._members, batches, strict=True)]
        return [memory for memory, _ in begun], [state for _, state in begun]

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        steps = [
            member.step(own, so_far, last)
            for member, own, so_far in zip(self._members, memory, state, strict=True)
        ]
        log_probs = self._mean([step.log_probs for step in steps])
        return Step(log_probs, [step.state for step in steps], self._attention(steps))

    def max_target_length(self, source_length: int) -> int | None:
        limits = [member.max_target_length(source_length) for member in self._members]
        return min((limit for limit in limits if limit is not None), default=None)

    def _mean(self, each: list[Tensor]) -> Tensor:
        if self._space == "probability":
            weighted = [log + math.log(weight) for log, weight in zip(each, self._weights, strict=True)]
            return torch.stack(weighted).logsumexp(dim=0)
        total = sum(log * weight for log, weight in zip(each, self._weights, strict=True))
        assert isinstance(total, Tensor)
        return total.log_softmax(dim=-1)

    def _attention(self, steps: list[Step]) -> Tensor | None:
        """As of one head: the mean of the members that look anywhere, if all read the same source tokens."""
        if self._others:
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
    """Translates with several models of one target vocabulary; search and its options are the first one's.

    A member whose source vocabulary is another reads the lines by its own tokenizer.
    """

    def __init__(
        self,
        members: Sequence[TorchTranslator],
        *,
        weights: Sequence[float] | None = None,
        space: Space = "probability",
    ) -> None:
        first, *others = members
        targets = {member.tokenizers.target.fingerprint for member in members}
        assert len(targets) == 1, "the ids of one member's tokens mean other words to another"
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
        self._others = others if len(sources) > 1 else []

    def shortlist(self) -> Shortlist:
        """The table that all members have."""
        tables = [member.shortlist() for member in self._members]
        if len({table.digest for table in tables}) > 1:
            raise SeqloomError(
                "The runs of the ensemble have different shortlists, so they cannot vote on the same tokens.",
                "make them by seqloom shortlist with the same options and data, or leave out search.shortlist",
            )
        return tables[0]

    def _model(self, encoded: Sequence[Encoded], narrow: Callable[[StepModel], StepModel]) -> StepModel:
        models = [narrow(member.model) for member in self._members]
        requests = [one.request for one in encoded]
        others = [member.batch(member.encode(requests, self.search)) for member in self._others]
        return self._ensemble(models, others=others)
