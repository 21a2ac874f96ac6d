"""Text to text translation: a phrase-based decoder with the tokenizers of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, Self

from seqloom.decode.config import SearchConfig
from seqloom.decode.pipeline import Progress
from seqloom.decode.translator import NOTHING, Capability, Outputs, Translator
from seqloom.statistical.phrase.decoder import Decoder, Words, map_tasks
from seqloom.statistical.phrase.nbest import Derivation
from seqloom.statistical.phrase.options import PASS_THROUGH
from seqloom.statistical.phrase.table import PhraseTable
from seqloom.text.pair import TokenizerPair
from seqloom.text.training import SPACE
from seqloom.types import UNK, Hypothesis, Request


class _MakesDecoder(Protocol):
    def __call__(self, *, beam: int) -> Decoder: ...


class PhraseTranslator(Translator):
    """Phrase-based translator. The output for a line does not depend on other lines or the number of workers.

    `search.beam` is the number of hypotheses kept per stack. Both score and log_prob of an output are
    Σ weight · feature, which is log P up to a constant.
    """

    engine = "phrase"
    description = "A phrase-based model"
    alternative = "leave the option out, or use a neural model"
    search_options = frozenset({"beam", "nbest", "batch_tokens"})  # batch_tokens does not affect the output

    def __init__(
        self,
        make_decoder: _MakesDecoder,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        workers: int = 1,
        length_ratio: float | None = None,
    ) -> None:
        super().__init__(search, length_ratio=length_ratio)
        self.tokenizers, self.workers = tokenizers, workers
        self._make_decoder = lru_cache(maxsize=2)(make_decoder)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset({"nbest", "alignment"})

    def with_search(self, options: Mapping[str, Any]) -> Self:
        """Return a translator with these search options; the beam is raised to the n-best size if needed."""
        nbest = options.get("nbest")
        if isinstance(nbest, int) and nbest > self.search.beam and "beam" not in options:
            options = {**options, "beam": nbest}
        return super().with_search(options)

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        decoder = self._make_decoder(beam=search.beam)

        def translate_one(request: Request) -> list[Hypothesis]:
            words = read(self.tokenizers, request.source)
            if not words.ids:
                return [NOTHING]
            nbest = decoder.nbest(words, search.nbest)
            return [self._hypothesis(decoder.table, words, derivation, alignment) for derivation in nbest]

        outputs: Outputs = []
        for hypotheses in map_tasks(translate_one, requests, self.workers):
            outputs.append(hypotheses)
            on_progress(1)
        return outputs

    def decode(self, line: str, *, beam: int | None = None) -> tuple[Decoder, Words]:
        """Return the decoder and the words of a line, for inspecting the search."""
        return self._make_decoder(beam=beam or self.search.beam), read(self.tokenizers, line)

    def _hypothesis(
        self, table: PhraseTable, words: Words, derivation: Derivation, alignment: bool
    ) -> Hypothesis:
        return Hypothesis(
            text=spelled(self.tokenizers, derivation),
            score=derivation.score,
            log_prob=derivation.score,
            tokens=tuple(target_tokens(self.tokenizers, derivation)),
            source_tokens=tuple(readable(words.surfaces)),
            alignment=word_weights(table, derivation, len(words.ids)) if alignment else (),
        )


def read(tokenizers: TokenizerPair, line: str) -> Words:
    """Return the words of a line."""
    ids, surfaces = tokenizers.source.encode(line), tokenizers.source.surfaces(line)
    return Words(ids, surfaces, [_target_id(tokenizers, surface) for surface in surfaces])


def _target_id(tokenizers: TokenizerPair, surface: str) -> int:
    """Return the target id of a source word, such as a name or a number; UNK if it has none."""
    ids = tokenizers.target.encode(tokenizers.source.spell([surface.encode()]))
    return ids[0] if len(ids) == 1 else UNK


def spelled(tokenizers: TokenizerPair, derivation: Derivation) -> str:
    """Return the text of a derivation; words that are passed through are copied as written."""
    target = tokenizers.target
    return target.spell(
        surface.encode() if surface else target.bytes_of([word])[0] for word, surface in derivation.words
    )


def target_tokens(tokenizers: TokenizerPair, derivation: Derivation) -> list[str]:
    """Return one readable token per target word."""
    pieces = tokenizers.target.pieces(word for word, _ in derivation.words)
    return [
        readable([surface])[0] if surface else piece
        for piece, (_, surface) in zip(pieces, derivation.words, strict=True)
    ]


def readable(surfaces: Sequence[str]) -> list[str]:
    """Return the words without space markers; adjacent unknown words form one."""
    return [surface.replace(SPACE, " ").strip() for surface in surfaces]


def word_weights(table: PhraseTable, derivation: Derivation, length: int) -> tuple[tuple[float, ...], ...]:
    """Return the alignment weights of every target word and EOS over the source words and EOS.

    The weight of a word is divided among the words it is linked to in its phrase, or among all of them.
    """
    rows: list[tuple[float, ...]] = []
    for option, start, stop in derivation.pieces:
        size = stop - start
        if option.row == PASS_THROUGH:
            linked: list[list[int]] = [[0]]
        else:
            linked = table.linked(option.row, size, len(option.words))
        for links in linked:
            positions = links or range(size)
            row = [0.0] * (length + 1)
            for position in positions:
                row[start + position] = 1 / len(positions)
            rows.append(tuple(row))
    rows.append((*[0.0] * length, 1.0))
    return tuple(rows)
