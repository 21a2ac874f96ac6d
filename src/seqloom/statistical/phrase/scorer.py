"""Scores of given targets under a phrase-based model: the best derivation of each, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from seqloom.statistical.phrase.decoder import Decoder, map_tasks
from seqloom.statistical.phrase.features import FEATURES
from seqloom.statistical.phrase.forced import force_decode
from seqloom.statistical.phrase.options import Option
from seqloom.statistical.phrase.translator import read, readable
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """A target phrase, its source, and its contribution to the score; the last one includes EOS."""

    source: str
    target: str
    start: int  # index of the first source word
    stop: int
    score: float


@dataclass(frozen=True, slots=True)
class DerivationScore:
    """Model score of the best derivation of a target: Σ weight · feature, which is not a log-probability."""

    score: float | None  # None: the model cannot generate the target
    words: int  # number of target words
    phrases: tuple[PhrasePair, ...] = ()  # in target order
    features: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """The score per target word."""
        return None if self.score is None else self.score / max(1, self.words)


class PhraseScorer:
    """Forced decoding of given targets. A score does not depend on other pairs or on the number of workers."""

    def __init__(self, decoder: Decoder, tokenizers: TokenizerPair, *, workers: int = 1) -> None:
        self._decoder, self._tokenizers, self._workers = decoder, tokenizers, workers

    def score(
        self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None
    ) -> list[DerivationScore]:
        """Return the score of the best derivation of every target from its source, in order."""
        scores = []
        for score in map_tasks(self._score_pair, list(pairs), self._workers):
            scores.append(score)
            if on_progress:
                on_progress(1)
        return scores

    def _score_pair(self, pair: tuple[str, str]) -> DerivationScore:
        words, target = read(self._tokenizers, pair[0]), self._tokenizers.target
        ids, surfaces = target.encode(pair[1]), target.surfaces(pair[1])
        tokens = zip(ids, surfaces, target.bytes_of(ids), strict=True)
        text = b"".join(surface.encode() if id == UNK else value for id, surface, value in tokens)
        if not words.ids or not text:
            return DerivationScore(None, len(ids))
        forced = force_decode(self._decoder, self._decoder.read(words), text, self._spell)
        if forced is None:
            return DerivationScore(None, len(ids))
        derivation, gains = forced
        values = self._decoder.features(derivation, len(words.ids))
        phrases = [target.spell([self._spell(piece.option)]).strip() for piece in derivation.pieces]
        source = readable(words.surfaces)
        return DerivationScore(
            score=derivation.score,
            words=len(ids),
            phrases=tuple(
                PhrasePair(" ".join(source[piece.start : piece.stop]), phrase, piece.start, piece.stop, gain)
                for piece, phrase, gain in zip(derivation.pieces, phrases, gains, strict=True)
            ),
            features=dict(zip(FEATURES, values.tolist(), strict=True)),
        )

    def _spell(self, option: Option) -> bytes:
        return option.surface.encode() or b"".join(self._tokenizers.target.bytes_of(option.words))
