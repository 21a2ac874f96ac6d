"""The phrase-based translation model: settings, fitting, saving, and its translator and scorer."""

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
from seqloom.statistical.phrase.stacks import StackLimits
from seqloom.statistical.phrase.table import LONGEST, PhraseTable, build_table
from seqloom.statistical.phrase.translator import PhraseTranslator, read
from seqloom.statistical.phrase.tune import NBestList, tune
from seqloom.statistical.state_reader import StateReader, expect_size
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
    aligner: Model = Field("hmm", description="word alignment model: ibm1, ibm2, diagonal or hmm")
    symmetrise: Method = Field(
        "grow-diag-final-and", description="method of combining the alignments of both directions"
    )
    longest: int = Field(5, ge=1, le=LONGEST, description="maximum phrase length in words")
    smooth: bool = Field(True, description="discount phrase counts (Kneser-Ney); false = relative frequencies")
    orientation_prior: float = Field(
        2.0,
        gt=0,
        description="pseudo-counts of average orientations added to every phrase pair",
    )
    keep: int = Field(50, ge=1, description="maximum translations per source phrase in the table")
    order: int = Field(5, ge=1, description="maximum n-gram length of the language model in words")
    weights: Literal["tuned", "start", "noisy-channel"] = Field(
        "tuned",
        description="tuned for BLEU on the validation pairs; start: initial weights; or P(x|y) P(y) only",
    )
    tune_sentences: int = Field(500, ge=1, description="number of validation pairs for tuning the weights")
    tune_rounds: int = Field(6, ge=1, description="maximum number of tuning rounds, each decodes all pairs")
    tune_nbest: int = Field(100, ge=2, description="n-best size for tuning")
    options: int = Field(20, ge=1, description="translations per source phrase that the search considers")
    stack: int = Field(60, ge=1, description="maximum hypotheses per stack; overridden by --beam")
    pops: int = Field(100, ge=1, description="hypotheses created per stack before pruning")
    jump: int = Field(6, ge=0, description="maximum source words jumped over; 0 = monotone")

    def limits(self, beam: int | None = None) -> StackLimits:
        """Return the search limits, with `beam` hypotheses per stack if given."""
        stack = beam or self.stack
        return StackLimits(stack=stack, pops=max(self.pops, stack), jump=self.jump)


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
    """argmax over derivations of Σ weight · feature; the features are listed in features.py."""

    def __init__(self, settings: PhraseSettings, vocabularies: Vocabularies) -> None:
        self.settings, self.vocabularies = settings, vocabularies
        self.weights: Vector = noisy_channel() if settings.weights == "noisy-channel" else start_weights()
        self._table: PhraseTable | None = None
        self._language: Ngrams | None = None

    @property
    def table(self) -> PhraseTable:
        """The phrase table of a fitted or restored model."""
        assert self._table is not None, "call fit or load_state_dict first"
        return self._table

    @property
    def language(self) -> Ngrams:
        """The target language model of a fitted or restored model."""
        assert self._language is not None, "call fit or load_state_dict first"
        return self._language

    def fit(self, data: FitData) -> dict[str, float]:
        """Align, extract, count and tune; `bleu` is that of the tuning sentences, on tokens."""
        self._language = self._estimate_language(data)
        self._table = self._extract(data)
        if not len(self.table):
            raise SeqloomError(
                f"No phrases found in {len(data.train):,} training pairs: no known words are linked.",
                "check that sources and targets are translations of each other, or raise text.vocab_size",
            )
        logger.info(f"{len(self.table):,} phrase pairs")
        metrics = {"phrase_pairs": float(len(self.table))}
        if self.settings.weights == "tuned":
            bleu = self._tune(data)
            metrics |= {} if bleu is None else {"bleu": bleu}
        return metrics

    def _estimate_language(self, data: FitData) -> Ngrams:
        store = data.train
        rows = [store.target(i) for i in range(len(store))]
        return Ngrams.estimate(rows, order=self.settings.order, vocabulary=self.vocabularies.target)

    def _extract(self, data: FitData) -> PhraseTable:
        """Build the phrase table of the training pairs."""
        settings, tokenizers = self.settings, data.tokenizers
        sizes = tokenizers.source.size, tokenizers.target.size  # raises an error if sources are not text
        sources, targets = _pairs(data.train)
        logger.info("aligning words")
        links = align(
            list(zip(sources, targets, strict=True)),
            model=settings.aligner,
            symmetrise=settings.symmetrise,
            threads=data.threads,
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

    def _tune(self, data: FitData) -> float | None:
        """Tune the weights and return the BLEU reached; None without validation pairs."""
        pairs = [
            (example.source, example.target)
            for example in data.valid_examples()
            if example.source and example.target
        ]
        if not pairs:
            logger.info("no validation pairs: weights are not tuned")
            return None
        random = np.random.default_rng(data.seed)
        size = min(len(pairs), self.settings.tune_sentences)
        sample = [pairs[i] for i in sorted(random.choice(len(pairs), size, replace=False))]
        logger.info(f"tuning weights on {size:,} validation pairs")
        decode = self._nbest_lists(sample, data)
        rounds = self.settings.tune_rounds
        self.weights, bleu = tune(decode, self.weights, rounds=rounds, seed=data.seed)
        return bleu

    def _nbest_lists(self, pairs: list[tuple[str, str]], data: FitData) -> Callable[[Vector], list[NBestList]]:
        """Return a function from weights to the n-best lists of these pairs."""
        target = data.tokenizers.target
        sources = [read(data.tokenizers, source) for source, _ in pairs]
        references = [Reference(target.surfaces(text)) for _, text in pairs]

        def decode(weights: Vector) -> list[NBestList]:
            decoder = self.decoder(weights=weights)

            def decode_one(task: tuple[Words, Reference]) -> NBestList:
                words, reference = task
                nbest = decoder.nbest(words, self.settings.tune_nbest)
                surfaces = [[surface or pieces[word] for word, surface in each.words] for each in nbest]
                return NBestList(
                    np.array([decoder.features(each, len(words.ids)) for each in nbest]),
                    np.array([reference.counts(each) for each in surfaces]),
                )

            return list(map_tasks(decode_one, list(zip(sources, references, strict=True)), data.threads))

        pieces = [piece.decode(errors="replace") for piece in target.bytes_of(range(target.size))]
        return decode

    def decoder(self, *, weights: Vector | None = None, beam: int | None = None) -> Decoder:
        """Return a decoder with the fitted tables, by default with the fitted weights."""
        weights = self.weights if weights is None else weights
        return Decoder(self.table, self.language, weights, self.settings.limits(beam), self.settings.options)

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
        """Return a scorer of given targets, which uses all translations in the table."""
        limits = self.settings.limits()
        decoder = Decoder(self.table, self.language, self.weights, limits, self.settings.keep)
        return PhraseScorer(decoder, tokenizers, workers=checked_threads(workers))

    def state_dict(self) -> dict[str, Tensor]:
        parts = {"table": self.table.to_tensors(), "language": self.language.to_tensors()}
        tensors = {f"{part}.{name}": tensor for part, own in parts.items() for name, tensor in own.items()}
        return {"weights": torch.from_numpy(self.weights), **tensors}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        weights = StateReader(state, features=len(self.weights)).numbers("weights", "features")
        table = PhraseTable.from_tensors(_part(state, "table"))
        language = Ngrams.from_tensors(_part(state, "language"))
        expect_size(table.source.vocabulary, self.vocabularies.source, "source vocabulary size")
        for vocabulary in (table.target.vocabulary, language.vocabulary):
            expect_size(vocabulary, self.vocabularies.target, "target vocabulary size")
        self.weights, self._table, self._language = weights.cpu().numpy(), table, language


def _part(state: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the tensors of one part of a model, without the prefix of their names."""
    names = {name: name.removeprefix(f"{part}.") for name in state if name.startswith(f"{part}.")}
    return {own: state[name].cpu() for name, own in names.items()}


def _pairs(store: TokenStore) -> tuple[list[Any], list[Any]]:
    """Return the source and target ids of all pairs with two non-empty sides."""
    rows = [(store.source(i), store.target(i)) for i in range(len(store))]
    full = [(source, target) for source, target in rows if len(source) and len(target)]
    if not full:
        raise SeqloomError(
            "There are no pairs to learn phrases from: no training line has both a source and a target.",
            "the model phrase needs pairs; for plain text use --model ngram",
        )
    return [source for source, _ in full], [target for _, target in full]
