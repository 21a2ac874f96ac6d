"""Forced decoding: the best way in which the model can say a given target.

A hypothesis has covered some words of the source and said the beginning of the target; what would say anything
else is not made. Hypotheses that have said equally much share a stack. As in the free search, two of them that
nothing in the future can tell apart are one: the better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from seqloom.statistical.phrase import features as F
from seqloom.statistical.phrase.decoder import Decoder
from seqloom.statistical.phrase.extract import MONOTONE, OTHER
from seqloom.statistical.phrase.features import Context
from seqloom.statistical.phrase.nbest import Derivation, Piece
from seqloom.statistical.phrase.options import Option, SourceSentence, SpanOptions, log_prob_of
from seqloom.statistical.phrase.stacks import BEGIN, Place, next_spans, orientation, place_after
from seqloom.types import EOS

_KEPT = (
    1000  # hypotheses of a stack: more than ordinary pairs have, and a bound for those that repeat themselves
)

Spell = Callable[[Option], bytes]  # what an option says


class Forced(NamedTuple):
    """The best derivation of a target, and what each piece adds to its score, the last one with the end."""

    derivation: Derivation
    gains: tuple[float, ...]


class _Way(NamedTuple):
    """A hypothesis: the best way to what its future depends on."""

    score: float
    place: Place
    context: Context
    after: tuple[float, ...]  # weighted log P of each orientation that the next phrase may have
    piece: Piece | None = None
    previous: _Way | None = None


class _Step(NamedTuple):
    """An option that says the next part of the target."""

    piece: Piece
    mask: int
    end: int  # bytes of the target that are then said


def forced(decoder: Decoder, sentence: SourceSentence, target: bytes, spell: Spell) -> Forced | None:
    """The best derivation of the sentence that says the target; None if there is none.

    The space is that of the decoder's options and its limit of jumps, whatever else it prunes by.
    """
    complete = (1 << sentence.length) - 1
    said = _Occurrences(target, spell)
    stacks: dict[int, dict[object, _Way]] = {0: {BEGIN: _Way(0.0, BEGIN, decoder.language.start, (0.0,) * 3)}}
    best: _Way | None = None
    for offset in range(len(target)):
        for way in _kept(list(stacks.pop(offset, {}).values()), sentence):
            for step in _steps(way, offset, sentence, said, decoder.limits.jump):
                if (step.end == len(target)) != (way.place[0] | step.mask == complete):
                    continue  # words of one side are left, and none of the other
                longer = _longer(way, step, decoder)
                if step.end == len(target):
                    longer = _ended(longer, sentence.length, decoder)
                    best = longer if best is None or longer.score > best.score else best
                    continue
                stack = stacks.setdefault(step.end, {})
                key = (longer.place, longer.context, longer.after)
                if key not in stack or longer.score > stack[key].score:
                    stack[key] = longer
    return None if best is None else _traced(best)


class _Occurrences:
    """Where in the target each option of a span can be said; every span is looked at once."""

    def __init__(self, target: bytes, spell: Spell) -> None:
        self._target, self._spell = target, spell
        self._known: dict[int, dict[int, list[tuple[Option, int]]]] = {}

    def at(self, mask: int, choice: SpanOptions, offset: int) -> list[tuple[Option, int]]:
        """The options of a span that go on there, and where they end."""
        if mask not in self._known:
            found: dict[int, list[tuple[Option, int]]] = {}
            for option in choice.ranked[0][1]:
                text = self._spell(option)
                place = self._target.find(text)
                while place >= 0:
                    found.setdefault(place, []).append((option, place + len(text)))
                    place = self._target.find(text, place + 1)
            self._known[mask] = found
        return self._known[mask].get(offset, [])


def _kept(ways: list[_Way], sentence: SourceSentence) -> list[_Way]:
    if len(ways) <= _KEPT:
        return ways
    ways.sort(key=lambda way: -(way.score + sentence.estimate(way.place[0])))
    return ways[:_KEPT]


def _steps(
    way: _Way, offset: int, sentence: SourceSentence, said: _Occurrences, jump: int | None
) -> Iterator[_Step]:
    for start, stop, mask, choice in next_spans(way.place, sentence, jump):
        for option, end in said.at(mask, choice, offset):
            yield _Step(Piece(option, start, stop), mask, end)


def _longer(way: _Way, step: _Step, decoder: Decoder) -> _Way:
    """The hypothesis with one more piece."""
    (option, start, stop), (covered, last_start, last_stop) = step.piece, way.place
    turn = orientation(last_start, last_stop, start, stop)
    log_prob, context = log_prob_of(decoder.language, way.context, option.words)
    gain = (
        option.translation
        + option.before[turn]
        + way.after[turn]
        + float(decoder.weights[F.LANGUAGE]) * log_prob
        - float(decoder.weights[F.DISTANCE]) * abs(start - last_stop)
    )
    place = place_after(covered | step.mask, start, stop)
    return _Way(way.score + gain, place, context, option.after, step.piece, way)


def _ended(way: _Way, length: int, decoder: Decoder) -> _Way:
    """The hypothesis with the end of the sentence, which stands behind the last word of the source."""
    log_prob, _ = log_prob_of(decoder.language, way.context, (EOS,))
    after = way.after[MONOTONE if way.place[2] == length else OTHER]
    return way._replace(score=way.score + float(decoder.weights[F.LANGUAGE]) * log_prob + after)


def _traced(last: _Way) -> Forced:
    pieces, gains, way = list[Piece](), list[float](), last
    while way.previous is not None and way.piece is not None:
        pieces.append(way.piece)
        gains.append(way.score - way.previous.score)
        way = way.previous
    return Forced(Derivation(last.score, tuple(reversed(pieces))), tuple(reversed(gains)))
