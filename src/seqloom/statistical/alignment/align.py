"""Word alignment of sentence pairs: training, symmetrised links, posteriors and lexicons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError, unknown
from seqloom.statistical.alignment.bitext import Pair, Reals, build_bitext
from seqloom.statistical.alignment.em import Direction, Translations, iterate, posteriors
from seqloom.statistical.alignment.hmm import HmmPositions
from seqloom.statistical.alignment.lexicon import Lexicon
from seqloom.statistical.alignment.position import (
    DiagonalPositions,
    ExpectedLinks,
    FreePositions,
    PositionModel,
    UniformPositions,
)
from seqloom.statistical.alignment.symmetrise import METHODS, Mask, Method, symmetrise_links

Model = Literal["hmm", "diagonal", "ibm2", "ibm1"]
MODELS: tuple[Model, ...] = get_args(Model)
Links = NDArray[np.int32]  # (n, 2): source position, target position, both from 0, sorted

PRIOR = 0.01  # pseudo-count of every word pair, as in Dyer et al. 2013
ITERATIONS = 5  # per stage

_POSITIONS: Mapping[Model, Callable[[], PositionModel]] = {
    "ibm1": UniformPositions,
    "ibm2": FreePositions,
    "diagonal": DiagonalPositions,
    "hmm": HmmPositions,
}
_WITHOUT_PRIOR: Mapping[Model, Callable[[], PositionModel]] = {**_POSITIONS, "ibm2": FreePositions.as_published}
_STAGES: Mapping[Model, tuple[Model, ...]] = {  # each starts from the word translations of the previous stage
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
    """Align the pairs and return the links of each, in order; a pair with an empty side has none."""
    check_names(model, symmetrise)
    aligner = Aligner(pairs, prior=prior, threads=threads)
    aligner.train(model, iterations=iterations, agree=agree)
    return aligner.links(symmetrise)


def check_names(model: str, symmetrise: str) -> None:
    """Raise unless the model and the symmetrisation method exist."""
    if model not in MODELS:
        raise unknown("alignment model", model, MODELS)
    if symmetrise not in METHODS:
        raise unknown("symmetrisation", symmetrise, METHODS)


@dataclass(frozen=True)
class Round:
    """One EM iteration and the log-likelihoods before it: target given source, and source given target."""

    stage: Model
    number: int
    forward: float
    backward: float

    def __str__(self) -> str:
        both = f"{self.forward:,.0f} forward, {self.backward:,.0f} backward"
        return f"{self.stage} {self.number}: log-likelihood {both}"


class Aligner:
    """Both directions of an alignment model over one corpus.

    The same pairs give the same links whatever the number of threads. With `prior=0`, word translations and the
    positions of IBM 2 are relative frequencies, as published.
    """

    def __init__(self, pairs: Sequence[Pair], *, prior: float = PRIOR, threads: int = 1) -> None:
        self.threads, self._positions = threads, _POSITIONS if prior else _WITHOUT_PRIOR
        with self._pool() as pool:
            self.bitext = build_bitext(pairs, pool)
        self.directions = tuple(
            Direction(side, Translations.uniform(side), UniformPositions(), prior)
            for side in (self.bitext, self.bitext.swapped())
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
        """Run `iterations` of EM for every stage of the model.

        With `agree`, both directions of the last stage learn from the links on which they agree. This gives
        much better alignments, but no longer increases the likelihood of each. The default is True for the HMM.
        """
        for stage in _STAGES[model]:
            joint = stage == model and (model == "hmm" if agree is None else agree)
            for direction in self.directions:
                direction.positions = self._positions[stage]()
            for number in range(1, iterations + 1):
                with self._pool() as pool:
                    log_likelihoods = iterate(self.directions, pool, agree=joint, on_progress=on_progress)
                self.rounds.append(Round(stage, number, *log_likelihoods))
                if on_round:
                    on_round(self.rounds[-1])

    def links(self, method: Method, *, on_progress: Callable[[int], None] | None = None) -> list[Links]:
        """Return the symmetrised links of every pair; each word is linked where its posterior is highest."""
        links = [np.empty((0, 2), dtype=np.int32)] * self.bitext.pairs

        def symmetrised(number: int) -> list[Mask]:
            forward, backward = (posteriors(direction, number) for direction in self.directions)
            return [
                symmetrise_links(_best_links(target_given).swapaxes(1, 2), _best_links(source_given), method)
                for target_given, source_given in zip(forward, backward, strict=True)
            ]

        with self._pool() as pool:
            for chunk, masks in zip(
                self.bitext.chunks, pool.map(symmetrised, range(len(self.bitext.chunks))), strict=True
            ):
                for block, mask in zip(chunk.blocks, masks, strict=True):
                    for pair, pair_links in zip(block.pairs, _listed(mask), strict=True):
                        links[pair] = pair_links
                if on_progress:
                    on_progress(chunk.pairs)
        return links

    def posteriors(self, pair: int) -> tuple[Reals, Reals]:
        """Return p(source i | target j) and p(target j | source i) of one pair, both (S, T)."""
        for number, chunk in enumerate(self.bitext.chunks):
            for index, block in enumerate(chunk.blocks):
                for row in np.flatnonzero(block.pairs == pair):
                    forward, backward = (posteriors(side, number)[index].links for side in self.directions)
                    return forward[row].T, backward[row]
        raise SeqloomError(
            f"Pair {pair + 1} cannot be aligned: one of its sides is empty.",
            "choose a pair with words on both sides",
        )

    def lexicons(self) -> tuple[Lexicon, Lexicon]:
        """Return t(target | source) and t(source | target)."""
        forward, backward = (
            Lexicon.of(side.bitext.source, side.bitext.target, side.translations.words)
            for side in self.directions
        )
        return forward, backward

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)


def passes(model: Model, iterations: int) -> int:
    """Return the number of passes over the pairs for training and linking."""
    return len(_STAGES[model]) * iterations + 1


def _best_links(expected: ExpectedLinks) -> Mask:
    """Return the most probable link of each target word, (B, T, S); none if the null word is more probable."""
    best = expected.links.max(axis=2)
    mask = np.zeros(expected.links.shape, dtype=np.bool_)
    indices = expected.links.argmax(axis=2)[:, :, None]
    np.put_along_axis(mask, indices, (best > expected.null)[:, :, None], axis=2)
    return mask


def _listed(mask: Mask) -> Iterable[Links]:
    """Return the links of each of the B pairs."""
    rows, sources, targets = np.nonzero(mask)
    ends = np.cumsum(np.bincount(rows, minlength=len(mask)))
    return np.split(np.stack([sources, targets], axis=1).astype(np.int32), ends[:-1])
