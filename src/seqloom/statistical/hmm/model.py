"""A hidden Markov model as a value: start, transitions, emissions, and all that is asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.em import (
    ExpectedCounts,
    Fit,
    baum_welch,
    log_density,
    maximised,
    refuse_impossible,
    shares,
    total,
)
from seqloom.statistical.hmm.emission import Categorical, Emission
from seqloom.statistical.hmm.gaussian import Gaussians
from seqloom.statistical.hmm.packed import Observations, Packed, pack
from seqloom.statistical.hmm.recursions import Chain, backward, forward, posteriors, viterbi
from seqloom.statistical.state_reader import StateReader

_VALUES = 1 << 22  # log-densities of a group of sequences: 32 MB in double precision


class Path(NamedTuple):
    """The most probable states of a sequence, and log P(states, sequence)."""

    states: Tensor  # (T,)
    log_prob: float


@dataclass(frozen=True)
class Hmm:
    """P(x, z) = π(z_1) b(x_1) Π_t a(z_{t-1}, z_t) b(x_t), K states. Precision and device are its tensors'.

    Sequences are lists of (T,) symbols or (T, F) features, of any lengths, and answers come in their order.
    """

    start: Tensor  # (K,)
    transition: Tensor  # (K, K)
    emission: Emission

    def pack(self, sequences: Sequence[Observations]) -> list[Packed]:
        """The sequences in groups, as the recursions take them."""
        if not sequences:
            raise SeqloomError("There are no sequences.", "give at least one")
        groups = pack(
            sequences,
            dtype=self.start.dtype,
            device=self.start.device,
            most=max(1, _VALUES // len(self.start)),
            width=self.emission.width,
        )
        return [replace(group, frames=self.emission.prepared(group.frames)) for group in groups]

    def log_likelihood(self, sequences: Sequence[Observations]) -> Tensor:
        """(B,): log P(x) of every sequence; −∞ if it is impossible."""
        found = torch.empty(len(sequences), dtype=torch.float64)
        for group, chain, density in self._groups(sequences):
            found[group.order] = forward(chain, density, group).log_likelihood.cpu()
        return found

    def posteriors(self, sequences: Sequence[Observations]) -> list[Tensor]:
        """(T, K) for every sequence: P(z_t | x)."""
        found: dict[int, Tensor] = {}
        for group, chain, density in self._groups(sequences):
            filtered = forward(chain, density, group)
            refuse_impossible(filtered.log_likelihood, group)
            gamma = posteriors(filtered, backward(chain, density, group)).cpu()
            found.update(zip(group.order.tolist(), group.unpack(gamma), strict=True))
        return [found[i] for i in range(len(sequences))]

    def viterbi(self, sequences: Sequence[Observations]) -> list[Path]:
        """The most probable path of every sequence."""
        found: dict[int, Path] = {}
        for group, chain, density in self._groups(sequences):
            path, scores = viterbi(chain, density, group)
            refuse_impossible(scores, group)
            paths = map(Path, group.unpack(path), scores.tolist())
            found.update(zip(group.order.tolist(), paths, strict=True))
        return [found[i] for i in range(len(sequences))]

    def _groups(self, sequences: Sequence[Observations]) -> Iterator[tuple[Packed, Chain, Tensor]]:
        chain = Chain.of(self.start, self.transition)
        for group in self.pack(sequences):
            yield group, chain, log_density(self.emission.parts(group.frames))

    def sample(self, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """States (T,) and what they emit, drawn from the model."""
        states = [int(self.start.multinomial(1, generator=generator))]
        for _ in range(length - 1):
            states.append(int(self.transition[states[-1]].multinomial(1, generator=generator)))
        chosen = torch.tensor(states, device=self.start.device)
        return chosen, self.emission.sample(chosen, generator)

    def fit(
        self,
        sequences: Sequence[Observations],
        *,
        iterations: int = 50,
        tolerance: float = 1e-4,
    ) -> Fit:
        """Baum-Welch from this model as the start."""
        return baum_welch(self, self.pack(sequences), iterations=iterations, tolerance=tolerance)

    def counted(
        self, sequences: Sequence[Observations], paths: Sequence[Observations], *, smoothing: float = 0.0
    ) -> Hmm:
        """The model of sequences whose states are known: relative frequencies, each count `smoothing` more.

        What is impossible in this model gets no smoothing.
        """
        groups = self.pack(sequences)
        sums = total(self._observed(group, paths) for group in groups)
        start, transition = (
            counts + smoothing * (allowed > 0)
            for counts, allowed in ((sums.start, self.start), (sums.transition, self.transition))
        )
        return maximised(self, replace(sums, start=start, transition=transition))

    def _observed(self, group: Packed, paths: Sequence[Observations]) -> ExpectedCounts:
        """The counts of one group with its states given."""
        rows = [torch.as_tensor(paths[i]) for i in group.order.tolist()]
        for i, row, length in zip(group.order.tolist(), rows, group.lengths.tolist(), strict=True):
            if len(row) != length:
                raise SeqloomError(
                    f"Sequence {i + 1} has {length} frames and {len(row)} states.",
                    "give a state for each frame",
                )
        device, most = self.start.device, len(group.frames)
        (packed,) = pack(rows, dtype=torch.long, device=device, most=most, width=None)
        states = packed.frames
        gamma = one_hot(states, len(self.start)).to(self.start)
        first, before = group.sizes[0], group.previous.to(states.device)
        parts = self.emission.parts(group.frames)
        shared = shares(parts, log_density(parts), gamma)
        return ExpectedCounts(
            0.0,
            gamma[:first].sum(0),
            gamma[before].T @ gamma[first:],
            self.emission.statistics(group.frames, shared),
        )

    def state_dict(self) -> dict[str, Tensor]:
        """All parameters by name."""
        return {"start": self.start, "transition": self.transition, **self.emission.state_dict()}

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Hmm:
        """The model that `state` came from; tensors that contradict each other are a ValueError."""
        given, dtype = StateReader(state), state["start"].dtype
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"start is of type {dtype}")
        start = given.probabilities("start", "K", dtype=dtype)
        transition = given.probabilities("transition", "K", "K", dtype=dtype)
        if not len(start):
            raise ValueError("there are no states")
        emission: Emission
        if "probabilities" in state:
            emission = Categorical(given.probabilities("probabilities", "K", "V", dtype=dtype))
        else:
            emission = Gaussians.given(given, dtype)
        return cls(start, transition, emission)
