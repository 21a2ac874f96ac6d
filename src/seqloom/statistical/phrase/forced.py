"""Forced decoding: the best derivation of a given target.

A hypothesis has covered some source words and generated a prefix of the target; options that would generate
anything else are not expanded. Hypotheses with the same prefix length share a stack. As in free search, two
hypotheses with the same future are recombined: only the better one is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from seqloom.statistical.phrase import features as F
from seqloom.statistical.phrase.decoder import Decoder
from seqloom.statistical.phrase.extract import MONOTONE, OTHER
from seqloom.statistical.phrase.features import Context
from seqloom.statistical.phrase.nbest import Derivation, DerivationPiece
from seqloom.statistical.phrase.options import Option, SourceSentence, SpanOptions, log_prob_of
from seqloom.statistical.phrase.stacks import BEGIN, CoverageState, coverage_after, next_spans, orientation
from seqloom.types import EOS

_STACK_SIZE = 1000  # more than ordinary pairs need; a bound for targets with many repetitions

Spell = Callable[[Option], bytes]  # the target text of an option


class ForcedDerivation(NamedTuple):
    """The best derivation of a target, and what each piece adds to the score; the last one includes EOS."""

    derivation: Derivation
    gains: tuple[float, ...]


class _ForcedHypothesis(NamedTuple):
    """The best partial derivation for everything that its future depends on."""

    score: float
    coverage: CoverageState
    context: Context
    after: tuple[float, ...]  # weighted log P of each possible orientation of the next phrase
    piece: DerivationPiece | None = None
    previous: _ForcedHypothesis | None = None


class _Expansion(NamedTuple):
    """An option that generates the next part of the target."""

    piece: DerivationPiece
    mask: int
    end: int  # length in bytes of the target prefix then generated


def force_decode(
    decoder: Decoder, sentence: SourceSentence, target: bytes, spell: Spell
) -> ForcedDerivation | None:
    """Return the best derivation of the target from the sentence; None if there is none.

    The search space is bounded by the decoder's options and its jump limit only, not by its other limits.
    """
    complete = (1 << sentence.length) - 1
    matches = _Matches(target, spell)
    start = _ForcedHypothesis(0.0, BEGIN, decoder.language.start, (0.0,) * 3)
    stacks: dict[int, dict[object, _ForcedHypothesis]] = {0: {BEGIN: start}}
    best: _ForcedHypothesis | None = None
    for offset in range(len(target)):
        for hypothesis in _pruned(list(stacks.pop(offset, {}).values()), sentence):
            for expansion in _expansions(hypothesis, offset, sentence, matches, decoder.limits.jump):
                if (expansion.end == len(target)) != (hypothesis.coverage[0] | expansion.mask == complete):
                    continue  # one side is complete and the other is not
                longer = _expanded(hypothesis, expansion, decoder)
                if expansion.end == len(target):
                    longer = _with_end(longer, sentence.length, decoder)
                    best = longer if best is None or longer.score > best.score else best
                    continue
                stack = stacks.setdefault(expansion.end, {})
                key = (longer.coverage, longer.context, longer.after)
                if key not in stack or longer.score > stack[key].score:
                    stack[key] = longer
    return None if best is None else _backtrace(best)


class _Matches:
    """Positions in the target at which each option of a span matches, cached by span."""

    def __init__(self, target: bytes, spell: Spell) -> None:
        self._target, self._spell = target, spell
        self._cache: dict[int, dict[int, list[tuple[Option, int]]]] = {}

    def at(self, mask: int, choice: SpanOptions, offset: int) -> list[tuple[Option, int]]:
        """Return the options of a span that match at the offset, and the offsets at which they end."""
        if mask not in self._cache:
            matches: dict[int, list[tuple[Option, int]]] = {}
            for option in choice.ranked[0][1]:
                text = self._spell(option)
                position = self._target.find(text)
                while position >= 0:
                    matches.setdefault(position, []).append((option, position + len(text)))
                    position = self._target.find(text, position + 1)
            self._cache[mask] = matches
        return self._cache[mask].get(offset, [])


def _pruned(hypotheses: list[_ForcedHypothesis], sentence: SourceSentence) -> list[_ForcedHypothesis]:
    if len(hypotheses) <= _STACK_SIZE:
        return hypotheses
    hypotheses.sort(key=lambda one: -(one.score + sentence.estimate(one.coverage[0])))
    return hypotheses[:_STACK_SIZE]


def _expansions(
    hypothesis: _ForcedHypothesis, offset: int, sentence: SourceSentence, matches: _Matches, jump: int | None
) -> Iterator[_Expansion]:
    for start, stop, mask, choice in next_spans(hypothesis.coverage, sentence, jump):
        for option, end in matches.at(mask, choice, offset):
            yield _Expansion(DerivationPiece(option, start, stop), mask, end)


def _expanded(hypothesis: _ForcedHypothesis, expansion: _Expansion, decoder: Decoder) -> _ForcedHypothesis:
    """Return the hypothesis with one more piece."""
    (option, start, stop), (covered, last_start, last_stop) = expansion.piece, hypothesis.coverage
    turn = orientation(last_start, last_stop, start, stop)
    log_prob, context = log_prob_of(decoder.language, hypothesis.context, option.words)
    gain = (
        option.translation
        + option.before[turn]
        + hypothesis.after[turn]
        + float(decoder.weights[F.LANGUAGE]) * log_prob
        - float(decoder.weights[F.DISTANCE]) * abs(start - last_stop)
    )
    coverage = coverage_after(covered | expansion.mask, start, stop)
    return _ForcedHypothesis(
        hypothesis.score + gain, coverage, context, option.after, expansion.piece, hypothesis
    )


def _with_end(hypothesis: _ForcedHypothesis, length: int, decoder: Decoder) -> _ForcedHypothesis:
    """Return the hypothesis with EOS, which follows the last source word."""
    log_prob, _ = log_prob_of(decoder.language, hypothesis.context, (EOS,))
    after = hypothesis.after[MONOTONE if hypothesis.coverage[2] == length else OTHER]
    return hypothesis._replace(score=hypothesis.score + float(decoder.weights[F.LANGUAGE]) * log_prob + after)


def _backtrace(last: _ForcedHypothesis) -> ForcedDerivation:
    pieces, gains, hypothesis = list[DerivationPiece](), list[float](), last
    while hypothesis.previous is not None and hypothesis.piece is not None:
        pieces.append(hypothesis.piece)
        gains.append(hypothesis.score - hypothesis.previous.score)
        hypothesis = hypothesis.previous
    return ForcedDerivation(Derivation(last.score, tuple(reversed(pieces))), tuple(reversed(gains)))
