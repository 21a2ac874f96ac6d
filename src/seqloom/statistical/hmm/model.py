"""Hidden Markov model: likelihood, posteriors, best paths, sampling and fitting."""

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
    check_possible,
    log_density,
    m_step,
    responsibilities,
    sum_counts,
)
from seqloom.statistical.hmm.emission import Categorical, Emission
from seqloom.statistical.hmm.gaussian import Gaussians
from seqloom.statistical.hmm.packed import Observations, Packed, pack
from seqloom.statistical.hmm.recursions import Chain, backward, forward, posteriors, viterbi
from seqloom.statistical.state_reader import StateReader

_GROUP_SIZE = 1 << 22  # log-densities per group of sequences: 32 MB in double precision


class StatePath(NamedTuple):
    """The most probable states of a sequence, and log P(states, sequence)."""

    states: Tensor  # (T,)
    log_prob: float


@dataclass(frozen=True)
class Hmm:
    """P(x, z) = π(z_1) b(x_1) Π_t a(z_{t-1}, z_t) b(x_t), K states. Dtype and device are those of its tensors.

    Sequences are lists of (T,) symbols or (T, F) features, of any length; results are in the same order.
    """

    start: Tensor  # (K,)
    transition: Tensor  # (K, K)
    emission: Emission

    def pack(self, sequences: Sequence[Observations]) -> list[Packed]:
        """Group the sequences and pack each group for the recursions."""
        if not sequences:
            raise SeqloomError("There are no sequences.", "give at least one")
        groups = pack(
            sequences,
            dtype=self.start.dtype,
            device=self.start.device,
            max_frames=max(1, _GROUP_SIZE // len(self.start)),
            width=self.emission.width,
        )
        return [replace(group, frames=self.emission.prepare(group.frames)) for group in groups]

    def log_likelihood(self, sequences: Sequence[Observations]) -> Tensor:
        """Return log P(x) of every sequence, (B,); −∞ if it is impossible."""
        result = torch.empty(len(sequences), dtype=torch.float64)
        for group, chain, density in self._groups(sequences):
            result[group.order] = forward(chain, density, group).log_likelihood.cpu()
        return result

    def posteriors(self, sequences: Sequence[Observations]) -> list[Tensor]:
        """Return P(z_t | x) of every sequence, (T, K) each."""
        by_sequence: dict[int, Tensor] = {}
        for group, chain, density in self._groups(sequences):
            filtered = forward(chain, density, group)
            check_possible(filtered.log_likelihood, group)
            gamma = posteriors(filtered, backward(chain, density, group)).cpu()
            by_sequence.update(zip(group.order.tolist(), group.unpack(gamma), strict=True))
        return [by_sequence[i] for i in range(len(sequences))]

    def viterbi(self, sequences: Sequence[Observations]) -> list[StatePath]:
        """Return the most probable path of every sequence."""
        by_sequence: dict[int, StatePath] = {}
        for group, chain, density in self._groups(sequences):
            path, scores = viterbi(chain, density, group)
            check_possible(scores, group)
            paths = map(StatePath, group.unpack(path), scores.tolist())
            by_sequence.update(zip(group.order.tolist(), paths, strict=True))
        return [by_sequence[i] for i in range(len(sequences))]

    def _groups(self, sequences: Sequence[Observations]) -> Iterator[tuple[Packed, Chain, Tensor]]:
        chain = Chain.of(self.start, self.transition)
        for group in self.pack(sequences):
            yield group, chain, log_density(self.emission.log_components(group.frames))

    def sample(self, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw states (T,) and the frames that they emit."""
        states = [int(self.start.multinomial(1, generator=generator))]
        for _ in range(length - 1):
            states.append(int(self.transition[states[-1]].multinomial(1, generator=generator)))
        path = torch.tensor(states, device=self.start.device)
        return path, self.emission.sample(path, generator)

    def fit(
        self,
        sequences: Sequence[Observations],
        *,
        iterations: int = 50,
        tolerance: float = 1e-4,
    ) -> Fit:
        """Fit by Baum-Welch, starting at this model."""
        return baum_welch(self, self.pack(sequences), iterations=iterations, tolerance=tolerance)

    def fit_supervised(
        self, sequences: Sequence[Observations], paths: Sequence[Observations], *, smoothing: float = 0.0
    ) -> Hmm:
        """Return the model of sequences with known states: relative frequencies, with `smoothing` added counts.

        Transitions that are impossible in this model get no added counts.
        """
        groups = self.pack(sequences)
        counts = sum_counts(self._observed(group, paths) for group in groups)
        start, transition = (
            observed + smoothing * (allowed > 0)
            for observed, allowed in ((counts.start, self.start), (counts.transition, self.transition))
        )
        return m_step(self, replace(counts, start=start, transition=transition))

    def _observed(self, group: Packed, paths: Sequence[Observations]) -> ExpectedCounts:
        """Return the counts of one group with known states."""
        rows = [torch.as_tensor(paths[i]) for i in group.order.tolist()]
        for i, row, length in zip(group.order.tolist(), rows, group.lengths.tolist(), strict=True):
            if len(row) != length:
                raise SeqloomError(
                    f"Sequence {i + 1} has {length} frames and {len(row)} states.",
                    "give one state per frame",
                )
        device, max_frames = self.start.device, len(group.frames)
        (packed,) = pack(rows, dtype=torch.long, device=device, max_frames=max_frames, width=None)
        states = packed.frames
        gamma = one_hot(states, len(self.start)).to(self.start)
        first, previous = group.sizes[0], group.previous.to(states.device)
        components = self.emission.log_components(group.frames)
        weights = responsibilities(components, log_density(components), gamma)
        return ExpectedCounts(
            0.0,
            gamma[:first].sum(0),
            gamma[previous].T @ gamma[first:],
            self.emission.statistics(group.frames, weights),
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Return all parameters by name."""
        return {"start": self.start, "transition": self.transition, **self.emission.state_dict()}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Hmm:
        """Restore a model from its state dict; raise ValueError if tensors contradict each other."""
        reader, dtype = StateReader(state), state["start"].dtype
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"start has dtype {dtype}, expected float32 or float64")
        start = reader.probabilities("start", "K", dtype=dtype)
        transition = reader.probabilities("transition", "K", "K", dtype=dtype)
        if not len(start):
            raise ValueError("the model has no states")
        emission: Emission
        if "probabilities" in state:
            emission = Categorical(reader.probabilities("probabilities", "K", "V", dtype=dtype))
        else:
            emission = Gaussians.from_state(reader, dtype)
        return cls(start, transition, emission)
