"""From pairs of sentences to links between their words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError, unknown
from seqloom.statistical.alignment.bitext import Pair, Reals, lay_out
from seqloom.statistical.alignment.em import Direction, Translations, iterate, posteriors
from seqloom.statistical.alignment.hmm import Jumps
from seqloom.statistical.alignment.lexicon import Lexicon
from seqloom.statistical.alignment.position import (
    DiagonalPositions,
    ExpectedLinks,
    FreePositions,
    PositionModel,
    UniformPositions,
)
from seqloom.statistical.alignment.symmetrise import METHODS, Mask, Method, symmetrised

Model = Literal["hmm", "diagonal", "ibm2", "ibm1"]
MODELS: tuple[Model, ...] = get_args(Model)
Links = NDArray[np.int32]  # (n, 2): source position, target position, both from 0, sorted

PRIOR = 0.01  # imagined occurrences of every word pair, as in Dyer et al. 2013
ITERATIONS = 5  # of each stage

_POSITIONS: Mapping[Model, Callable[[], PositionModel]] = {
    "ibm1": UniformPositions,
    "ibm2": FreePositions,
    "diagonal": DiagonalPositions,
    "hmm": Jumps,
}
_STAGES: Mapping[Model, tuple[Model, ...]] = {  # each begins with the words of the one before
    "ibm1": ("ibm1",),
    "ibm2": ("ibm1", "ibm2"),
    "diagonal": ("diagonal",),
    "hmm": ("diagonal", "hmm"),
}


def align(
    pairs: Sequence[Pair],
    *,
    model: Model = "hmm",
    symmetrise: Method = "grow-diag-final-and",
    iterations: int = ITERATIONS,
    prior: float = PRIOR,
    agree: bool | None = None,
    threads: int = 1,
) -> list[Links]:
    """The links of every pair, in the order of the pairs; a pair with an empty side has none."""
    check_names(model, symmetrise)
    aligner = Aligner(pairs, prior=prior, threads=threads)
    aligner.train(model, iterations=iterations, agree=agree)
    return aligner.links(symmetrise)


def check_names(model: str, symmetrise: str) -> None:
    """Raises unless there are such a model and such a symmetrisation."""
    if model not in MODELS:
        raise unknown("alignment model", model, MODELS)
    if symmetrise not in METHODS:
        raise unknown("symmetrisation", symmetrise, METHODS)


@dataclass(frozen=True)
class Round:
    """An iteration, and the log-likelihoods before it: of target given source, and of source given target."""

    stage: Model
    number: int
    forward: float
    backward: float

    def __str__(self) -> str:
        both = f"{self.forward:,.0f} forward, {self.backward:,.0f} backward"
        return f"{self.stage} {self.number}: log-likelihood {both}"


class Aligner:
    """Both directions of an alignment model over one corpus.

    The same pairs give the same links whatever the number of threads.
    """

    def __init__(self, pairs: Sequence[Pair], *, prior: float = PRIOR, threads: int = 1) -> None:
        self.threads = threads
        with self._pool() as pool:
            self.bitext = lay_out(pairs, pool)
        self.directions = tuple(
            Direction(side, Translations.uniform(side), UniformPositions(), prior)
            for side in (self.bitext, self.bitext.turned())
        )
        self.rounds: list[Round] = []

    def train(
        self,
        model: Model,
        *,
        iterations: int = ITERATIONS,
        agree: bool | None = None,
        on_round: Callable[[Round], None] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """EM: so many iterations of every stage of the model.

        With `agree` the directions of the last stage learn from the links in which both believe, which is far
        better but no longer raises the likelihood of each; so the HMM does unless it is told not to.
        """
        for stage in _STAGES[model]:
            together = stage == model and (model == "hmm" if agree is None else agree)
            for direction in self.directions:
                direction.positions = _POSITIONS[stage]()
            for number in range(1, iterations + 1):
                with self._pool() as pool:
                    found = iterate(self.directions, pool, agree=together, on_progress=on_progress)
                self.rounds.append(Round(stage, number, *found))
                if on_round:
                    on_round(self.rounds[-1])

    def links(self, method: Method, *, on_progress: Callable[[int], None] | None = None) -> list[Links]:
        """The symmetrised links of every pair; a word is linked where its posterior is highest."""
        links = [np.empty((0, 2), dtype=np.int32)] * self.bitext.pairs

        def find(number: int) -> list[Mask]:
            forward, backward = (posteriors(direction, number) for direction in self.directions)
            return [
                symmetrised(_decided(one).swapaxes(1, 2), _decided(other), method)
                for one, other in zip(forward, backward, strict=True)
            ]

        with self._pool() as pool:
            for chunk, masks in zip(
                self.bitext.chunks, pool.map(find, range(len(self.bitext.chunks))), strict=True
            ):
                for block, mask in zip(chunk.blocks, masks, strict=True):
                    for pair, found in zip(block.pairs, _listed(mask), strict=True):
                        links[pair] = found
                if on_progress:
                    on_progress(chunk.pairs)
        return links

    def posteriors(self, pair: int) -> tuple[Reals, Reals]:
        """p(source i | target j) and p(target j | source i) of one pair, both (S, T)."""
        for number, chunk in enumerate(self.bitext.chunks):
            for place, block in enumerate(chunk.blocks):
                for row in np.flatnonzero(block.pairs == pair):
                    forward, backward = (posteriors(side, number)[place].links for side in self.directions)
                    return forward[row].T, backward[row]
        raise SeqloomError(
            f"Pair {pair + 1} cannot be aligned: a side of it is empty.",
            "choose a pair with words on both sides",
        )

    def lexicons(self) -> tuple[Lexicon, Lexicon]:
        """t(target | source) and t(source | target)."""
        forward, backward = (
            Lexicon.of(side.bitext.source, side.bitext.target, side.translations.words)
            for side in self.directions
        )
        return forward, backward

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)


def passes(model: Model, iterations: int) -> int:
    """How often training and linking look at every pair."""
    return len(_STAGES[model]) * iterations + 1


def _decided(expected: ExpectedLinks) -> Mask:
    """Where each target word is linked, (B, T, S): to the source word, or nowhere, that is most probable."""
    best = expected.links.max(axis=2)
    mask = np.zeros(expected.links.shape, dtype=np.bool_)
    chosen = expected.links.argmax(axis=2)[:, :, None]
    np.put_along_axis(mask, chosen, (best > expected.null)[:, :, None], axis=2)
    return mask


def _listed(mask: Mask) -> Iterable[Links]:
    """The links of each of the B pairs."""
    rows, sources, targets = np.nonzero(mask)
    ends = np.cumsum(np.bincount(rows, minlength=len(mask)))
    return np.split(np.stack([sources, targets], axis=1).astype(np.int32), ends[:-1])
