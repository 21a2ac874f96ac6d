"""What a phrase-based model makes of given targets: its best derivation of each, if it can say it at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from seqloom.statistical.phrase.decoder import Decoder, map_tasks
from seqloom.statistical.phrase.features import FEATURES
from seqloom.statistical.phrase.forced import forced
from seqloom.statistical.phrase.options import Option
from seqloom.statistical.phrase.translator import read, readable
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """A phrase of the target, what it translates, and what it adds to the score; the last one with the end."""

    source: str
    target: str
    start: int  # of the source words, from 0
    stop: int
    score: float


@dataclass(frozen=True, slots=True)
class Reached:
    """How well a model says a given target: a model score, Σ weight · feature, which is no log-probability."""

    score: float | None  # None: it cannot say it
    words: int  # of the target
    phrases: tuple[PhrasePair, ...] = ()  # in the order of the target
    features: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """The score per target word."""
        return None if self.score is None else self.score / max(1, self.words)


class PhraseScorer:
    """Makes a phrase-based model say given targets. A score depends neither on other pairs nor on workers."""

    def __init__(self, decoder: Decoder, tokenizers: TokenizerPair, *, workers: int = 1) -> None:
        self._decoder, self._tokenizers, self._workers = decoder, tokenizers, workers

    def score(
        self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None
    ) -> list[Reached]:
        """The best derivation of every target from its source, in order."""
        found = []
        for one in map_tasks(self._reach, list(pairs), self._workers):
            found.append(one)
            if on_progress:
                on_progress(1)
        return found

    def _reach(self, pair: tuple[str, str]) -> Reached:
        words, target = read(self._tokenizers, pair[0]), self._tokenizers.target
        ids, surfaces = target.encode(pair[1]), target.surfaces(pair[1])
        known = zip(ids, surfaces, target.bytes_of(ids), strict=True)
        wanted = b"".join(surface.encode() if id == UNK else value for id, surface, value in known)
        if not words.ids or not wanted:
            return Reached(None, len(ids))
        found = forced(self._decoder, self._decoder.read(words), wanted, self._spell)
        if found is None:
            return Reached(None, len(ids))
        derivation, gains = found
        values = self._decoder.features(derivation, len(words.ids))
        spoken = [target.spell([self._spell(piece.option)]).strip() for piece in derivation.pieces]
        read_as = readable(words.surfaces)
        return Reached(
            score=derivation.score,
            words=len(ids),
            phrases=tuple(
                PhrasePair(" ".join(read_as[piece.start : piece.stop]), text, piece.start, piece.stop, gain)
                for piece, text, gain in zip(derivation.pieces, spoken, gains, strict=True)
            ),
            features=dict(zip(FEATURES, values.tolist(), strict=True)),
        )

    def _spell(self, option: Option) -> bytes:
        return option.surface.encode() or b"".join(self._tokenizers.target.bytes_of(option.words))
