"""Phrase-based translation as a model: fitted from a pair file into a run directory like every other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError
from seqloom.registry import register
from seqloom.settings import ModelSettings
from seqloom.statistical.alignment.align import Model, align
from seqloom.statistical.alignment.symmetrise import Method
from seqloom.statistical.base import FitData
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.statistical.phrase.bleu import Reference
from seqloom.statistical.phrase.decoder import Decoder, Words, map_tasks
from seqloom.statistical.phrase.features import Vector, noisy_channel, start_weights
from seqloom.statistical.phrase.scorer import PhraseScorer
from seqloom.statistical.phrase.stacks import Limits
from seqloom.statistical.phrase.table import LONGEST, PhraseTable, build_table
from seqloom.statistical.phrase.translator import PhraseTranslator, read
from seqloom.statistical.phrase.tune import ScoredCandidate, tune
from seqloom.statistical.state_reader import StateReader, expect
from seqloom.system import checked_threads
from seqloom.text.pair import TokenizerPair
from seqloom.types import Vocabularies

logger = logging.getLogger(__name__)


class PhraseSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"longest": 3, "order": 3, "tune_sentences": 100, "tune_rounds": 4},
        "small": {},
        "base": {"longest": 7, "tune_sentences": 1000},
    }

    name: str = "phrase"
    aligner: Model = Field("hmm", description="the word alignment: ibm1, ibm2, diagonal or hmm")
    symmetrise: Method = Field("grow-diag-final-and", description="how both directions become one")
    longest: int = Field(5, ge=1, le=LONGEST, description="words of a phrase at the most")
    smooth: bool = Field(True, description="discount phrase counts (Kneser-Ney); false = relative frequencies")
    orientation_prior: float = Field(
        2.0,
        gt=0,
        description="how often every phrase pair is taken to have been seen with average orientations",
    )
    keep: int = Field(50, ge=1, description="translations of a phrase that the table keeps")
    order: int = Field(5, ge=1, description="words of the longest n-grams of the language model")
    weights: Literal["tuned", "start", "noisy-channel"] = Field(
        "tuned",
        description="by BLEU of the validation pairs; as tuning starts; or P(x|y) P(y) and nothing else",
    )
    tune_sentences: int = Field(500, ge=1, description="validation pairs that the weights are tuned on")
    tune_rounds: int = Field(6, ge=1, description="decodings of them at the most")
    tune_nbest: int = Field(100, ge=2, description="translations of each that are compared")
    options: int = Field(20, ge=1, description="translations of a phrase that the search looks at")
    stack: int = Field(60, ge=1, description="hypotheses that cover equally many words; --beam changes it")
    pops: int = Field(100, ge=1, description="hypotheses that are made for a stack, before it is pruned")
    jump: int = Field(6, ge=0, description="source words that may be jumped over; 0 = monotone")

    def limits(self, beam: int | None = None) -> Limits:
        """The limits of the search, with `beam` hypotheses per stack if that is given."""
        stack = beam or self.stack
        return Limits(stack=stack, pops=max(self.pops, stack), jump=self.jump)


@register(
    "phrase",
    summary="Phrase-based translation: a log-linear model of phrase pairs with a stack decoder",
    paper="Koehn, Och & Marcu 2003; Koehn et al. 2007",
    settings=PhraseSettings,
    fitted=True,
    defaults={
        "text.tokenizer": "word",
        "text.vocab_size": 1_000_000,
        "text.byte_fallback": False,
        "text.joint": False,
    },
)
class PhraseModel:
    """argmax over derivations of Σ weight · feature; see features.py for what they are."""

    def __init__(self, settings: PhraseSettings, vocabularies: Vocabularies) -> None:
        self.settings, self.vocabularies = settings, vocabularies
        self.weights: Vector = noisy_channel() if settings.weights == "noisy-channel" else start_weights()
        self._table: PhraseTable | None = None
        self._language: Ngrams | None = None

    @property
    def table(self) -> PhraseTable:
        """The phrase table, once there is one."""
        assert self._table is not None, "fit or restore comes first"
        return self._table

    @property
    def language(self) -> Ngrams:
        """The language model of the target, once there is one."""
        assert self._language is not None, "fit or restore comes first"
        return self._language

    def fit(self, lesson: FitData) -> dict[str, float]:
        """Aligns, extracts, counts and tunes; `bleu` is that of the tuned sentences, on tokens."""
        self._language = self._count_language(lesson)
        self._table = self._extract(lesson)
        if not len(self.table):
            raise SeqloomError(
                f"No phrase was found in {len(lesson.train):,} training pairs: no known words could be linked.",
                "see that sources and targets are translations of each other, and raise text.vocab_size",
            )
        logger.info(f"{len(self.table):,} phrase pairs")
        figures = {"phrase_pairs": float(len(self.table))}
        if self.settings.weights == "tuned":
            reached = self._tune(lesson)
            figures |= {} if reached is None else {"bleu": reached}
        return figures

    def _count_language(self, lesson: FitData) -> Ngrams:
        store = lesson.train
        rows = [store.target(i) for i in range(len(store))]
        return Ngrams.estimate(rows, order=self.settings.order, vocabulary=self.vocabularies.target)

    def _extract(self, lesson: FitData) -> PhraseTable:
        """The phrase table of the training pairs."""
        settings, tokenizers = self.settings, lesson.tokenizers
        sizes = tokenizers.source.size, tokenizers.target.size  # an error if sources are no text
        sources, targets = _pairs(lesson.train)
        logger.info("aligning words")
        links = align(
            list(zip(sources, targets, strict=True)),
            model=settings.aligner,
            symmetrise=settings.symmetrise,
            threads=lesson.threads,
        )
        logger.info("extracting phrases")
        return build_table(
            sources,
            targets,
            links,
            vocabularies=sizes,
            longest=settings.longest,
            smooth=settings.smooth,
            strength=settings.orientation_prior,
            limit=settings.keep,
        )

    def _tune(self, lesson: FitData) -> float | None:
        """The BLEU that the tuned weights reached; None if there was nothing to tune on."""
        pairs = [(one.source, one.target) for one in lesson.valid_examples() if one.source and one.target]
        if not pairs:
            logger.info("no validation pairs: the weights are not tuned")
            return None
        random = np.random.default_rng(lesson.seed)
        size = min(len(pairs), self.settings.tune_sentences)
        chosen = [pairs[i] for i in sorted(random.choice(len(pairs), size, replace=False))]
        logger.info(f"tuning the weights on {size:,} validation pairs")
        decode = self._nbest_lists(chosen, lesson)
        rounds = self.settings.tune_rounds
        self.weights, reached = tune(decode, self.weights, rounds=rounds, seed=lesson.seed)
        return reached

    def _nbest_lists(
        self, pairs: list[tuple[str, str]], lesson: FitData
    ) -> Callable[[Vector], list[ScoredCandidate]]:
        """What gives, for some weights, the n-best lists of these pairs."""
        target = lesson.tokenizers.target
        sources = [read(lesson.tokenizers, source) for source, _ in pairs]
        references = [Reference(target.surfaces(text)) for _, text in pairs]

        def decode(weights: Vector) -> list[ScoredCandidate]:
            decoder = self.decoder(weights=weights)

            def one(task: tuple[Words, Reference]) -> ScoredCandidate:
                words, reference = task
                found = decoder.nbest(words, self.settings.tune_nbest)
                surfaces = [[surface or pieces[word] for word, surface in each.words] for each in found]
                return ScoredCandidate(
                    np.array([decoder.features(each, len(words.ids)) for each in found]),
                    np.array([reference.counts(each) for each in surfaces]),
                )

            return list(map_tasks(one, list(zip(sources, references, strict=True)), lesson.threads))

        pieces = [piece.decode(errors="replace") for piece in target.bytes_of(range(target.size))]
        return decode

    def decoder(self, *, weights: Vector | None = None, beam: int | None = None) -> Decoder:
        """What decodes with the learned tables, by default with the learned weights."""
        chosen = self.weights if weights is None else weights
        return Decoder(self.table, self.language, chosen, self.settings.limits(beam), self.settings.options)

    def translator(
        self,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        workers: int | None,
        length_ratio: float | None,
    ) -> PhraseTranslator:
        """Return a translator with the run's options; the beam is model.stack unless the run sets another."""
        beam = search.beam if search.differing({"beam"}) else max(self.settings.stack, search.nbest)
        return PhraseTranslator(
            self.decoder,
            tokenizers,
            PhraseTranslator.supported(search).changed(beam, None),
            workers=checked_threads(workers),
            length_ratio=length_ratio,
        )

    @staticmethod
    def unsupported_options(search: SearchConfig) -> list[str]:
        """Return the names of the search options that the stack decoder would ignore."""
        return PhraseTranslator.unsupported(search)

    def scorer(self, tokenizers: TokenizerPair, *, workers: int | None) -> PhraseScorer:
        """What finds the best derivation of given targets, among all that the table has."""
        limits = self.settings.limits()
        decoder = Decoder(self.table, self.language, self.weights, limits, self.settings.keep)
        return PhraseScorer(decoder, tokenizers, workers=checked_threads(workers))

    def state_dict(self) -> dict[str, Tensor]:
        parts = {"table": self.table.to_tensors(), "language": self.language.to_tensors()}
        tensors = {f"{part}.{name}": one for part, all in parts.items() for name, one in all.items()}
        return {"weights": torch.from_numpy(self.weights), **tensors}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        weights = StateReader(state, features=len(self.weights)).numbers("weights", "features")
        table = PhraseTable.from_tensors(_part(state, "table"))
        language = Ngrams.from_tensors(_part(state, "language"))
        expect(table.source.vocabulary, self.vocabularies.source, "the vocabulary of sources")
        for vocabulary in (table.target.vocabulary, language.vocabulary):
            expect(vocabulary, self.vocabularies.target, "the vocabulary of targets")
        self.weights, self._table, self._language = weights.cpu().numpy(), table, language


def _part(state: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one part of a model, under their own names."""
    names = {name: name.removeprefix(f"{part}.") for name in state if name.startswith(f"{part}.")}
    return {own: state[name].cpu() for name, own in names.items()}


def _pairs(store: TokenStore) -> tuple[list[Any], list[Any]]:
    """The source and the target ids of all pairs that have both."""
    rows = [(store.source(i), store.target(i)) for i in range(len(store))]
    full = [(source, target) for source, target in rows if len(source) and len(target)]
    if not full:
        raise SeqloomError(
            "There is nothing to learn phrases from: no training line has both a source and a target.",
            "phrase translates pairs; for plain text use --model ngram",
        )
    return [source for source, _ in full], [target for _, target in full]
