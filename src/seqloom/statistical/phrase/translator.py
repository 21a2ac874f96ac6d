"""Raw text in, raw text out: a phrase-based decoder with the tokenizers of its run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from seqloom.errors import SeqloomError
from seqloom.statistical.phrase.decoder import Decoder, Words, map_tasks
from seqloom.statistical.phrase.nbest import Derivation
from seqloom.statistical.phrase.options import PASSED
from seqloom.statistical.phrase.table import PhraseTable
from seqloom.text.pair import TokenizerPair
from seqloom.text.training import SPACE
from seqloom.types import UNK, Heads, Hypothesis


class _MakesDecoder(Protocol):
    def __call__(self, *, beam: int | None) -> Decoder: ...


class PhraseTranslator:
    """Translates by phrases. The answer for a line depends neither on other lines nor on the workers."""

    def __init__(
        self, make_decoder: _MakesDecoder, tokenizers: TokenizerPair, *, nbest: int = 1, workers: int = 1
    ) -> None:
        self.tokenizers, self.nbest, self.workers = tokenizers, nbest, workers
        self._make_decoder = make_decoder
        self._decoder = make_decoder(beam=None)

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam: int | None = None,
        nbest: int | None = None,
        alignment: bool = False,
        heads: Sequence[Heads | None] | None = None,
        prefixes: Sequence[str] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The n best hypotheses of every line, in the order of the lines; an empty line stays empty.

        `beam` is how many hypotheses a stack keeps. A score is Σ weight · feature, and so is log_prob: log P
        but for a constant.
        """
        _refuse(heads, prefixes)
        decoder = self._decoder if beam is None else self._make_decoder(beam=beam)
        wanted = self.nbest if nbest is None else nbest
        answers: list[list[Hypothesis]] = []

        def one(line: str) -> list[Hypothesis]:
            words = read(self.tokenizers, line)
            if not words.ids:
                return [Hypothesis(text="", score=0.0)]
            found = decoder.nbest(words, wanted)
            return [self._hypothesis(decoder.table, words, each, alignment) for each in found]

        for hypotheses in map_tasks(one, list(lines), self.workers):
            answers.append(hypotheses)
            if on_progress:
                on_progress(1)
        return answers

    def decode(self, line: str, *, beam: int | None = None) -> tuple[Decoder, Words]:
        """The decoder and the words of a line, for a closer look at the search."""
        return self._make_decoder(beam=beam), read(self.tokenizers, line)

    def _hypothesis(self, table: PhraseTable, words: Words, found: Derivation, alignment: bool) -> Hypothesis:
        return Hypothesis(
            text=spelled(self.tokenizers, found),
            score=found.score,
            log_prob=found.score,
            tokens=tuple(target_tokens(self.tokenizers, found)),
            source_tokens=tuple(readable(words.surfaces)),
            alignment=word_weights(table, found, len(words.ids)) if alignment else (),
        )


def _refuse(heads: Sequence[Heads | None] | None, prefixes: Sequence[str] | None) -> None:
    """Raises if something is asked for that the model cannot do."""
    if any(prefixes or ()):
        raise SeqloomError(
            "A phrase-based model cannot be told how an answer begins.",
            "leave the prefixes out, or use a neural model",
        )
    if any(heads or ()):
        raise SeqloomError(
            "A phrase-based model reads no trees.", "leave the heads out, or train a model that reads them"
        )


def read(tokenizers: TokenizerPair, line: str) -> Words:
    """The words of a line."""
    ids, surfaces = tokenizers.source.encode(line), tokenizers.source.surfaces(line)
    return Words(ids, surfaces, [_target_id(tokenizers, surface) for surface in surfaces])


def _target_id(tokenizers: TokenizerPair, surface: str) -> int:
    """The id that the target's vocabulary has for a word of the source, such as a name or a number."""
    ids = tokenizers.target.encode(tokenizers.source.spell([surface.encode()]))
    return ids[0] if len(ids) == 1 else UNK


def spelled(tokenizers: TokenizerPair, derivation: Derivation) -> str:
    """The text of a derivation; words that are passed through stand as they were written."""
    target = tokenizers.target
    return target.spell(
        surface.encode() if surface else target.bytes_of([word])[0] for word, surface in derivation.words
    )


def target_tokens(tokenizers: TokenizerPair, derivation: Derivation) -> list[str]:
    """One readable token per target word."""
    pieces = tokenizers.target.pieces(word for word, _ in derivation.words)
    return [
        readable([surface])[0] if surface else piece
        for piece, (_, surface) in zip(pieces, derivation.words, strict=True)
    ]


def readable(surfaces: Sequence[str]) -> list[str]:
    """The words as a person writes them; several unknown ones in a row are one."""
    return [surface.replace(SPACE, " ").strip() for surface in surfaces]


def word_weights(table: PhraseTable, derivation: Derivation, length: int) -> tuple[tuple[float, ...], ...]:
    """A weight per source word and the end, for every target word and the end.

    A word shares its weight out among those it is linked to in its phrase, or among all of the phrase.
    """
    rows: list[tuple[float, ...]] = []
    for option, start, stop in derivation.pieces:
        size = stop - start
        if option.row == PASSED:
            linked: list[list[int]] = [[0]]
        else:
            linked = table.linked(option.row, size, len(option.words))
        for places in linked:
            chosen = places or range(size)
            row = [0.0] * (length + 1)
            for place in chosen:
                row[start + place] = 1 / len(chosen)
            rows.append(tuple(row))
    rows.append((*[0.0] * length, 1.0))
    return tuple(rows)
