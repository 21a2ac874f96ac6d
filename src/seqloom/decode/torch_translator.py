"""The translator that searches with torch: a model with its tokenizers and its search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.data.encoding import Row
from seqloom.data.syntax import token_trees
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.constraints import Phrases, required_search
from seqloom.decode.options import BeamOptions, DecodedSequence, beam_options
from seqloom.decode.pipeline import BatchedResults, Progress
from seqloom.decode.reference import RestrictedVocabulary
from seqloom.decode.rules import Rules
from seqloom.decode.sampling import keys_of, sample
from seqloom.decode.shortlist import Shortlist, VocabularySubset
from seqloom.decode.translator import NOTHING, Capability, Outputs, Translator
from seqloom.errors import SeqloomError, quoted
from seqloom.models.base import AutoregressiveModel
from seqloom.text.frames import UnreadableFrames
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK, Batch, Head, Hypothesis, Request, StepModel


class Encoded(NamedTuple):
    """A request in tokens."""

    request: Request
    source: Row
    tree: list[int] | None  # the place from 1 of each token's head
    prefix: list[int]
    required: Phrases


class Problem(NamedTuple):
    """All that a search of one sentence needs."""

    model: StepModel
    sentence: Batch
    plan: BeamOptions
    max_length: int


@dataclass(frozen=True)
class _Batch:
    """Requests that are decoded together, over all tokens or over those of their shortlists."""

    encoded: list[Encoded]
    model: StepModel
    batch: Batch
    rules: Rules
    max_lengths: list[int]
    subset: VocabularySubset | None  # the tokens of model, rules and required phrases; None: all

    @property
    def required(self) -> Phrases:
        """The phrases that the output must contain; a request with such phrases is a batch of its own."""
        phrases = self.encoded[0].required
        return phrases if self.subset is None else [self.subset.to_subset(phrase) or () for phrase in phrases]

    def keys(self) -> list[int]:
        """Return the numbers that the random numbers of the sentences depend on."""
        given = [one.request.key for one in self.encoded]
        found = keys_of(self.batch, [one.prefix for one in self.encoded])
        return [key if own is None else own for own, key in zip(given, found, strict=True)]


class TorchTranslator(Translator):
    """Translates with any StepModel. The output for a line is the same alone or among others.

    The alignment of an output is the attention of one head, if one is named, or the mean of all.
    """

    engine = "torch"
    description = "This model"
    alternative = "leave the option out, or use another model"

    def __init__(
        self,
        model: StepModel,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        device: torch.device | str = "cpu",
        alignment_head: Head | None = None,
        shortlist: Callable[[], Shortlist] | None = None,
        length_ratio: float | None = None,
    ) -> None:
        super().__init__(search, length_ratio=length_ratio)
        self.model = model
        self.tokenizers = tokenizers
        self.device = torch.device(device)
        self.alignment_head = alignment_head
        self._find_shortlist = shortlist

    @property
    def capabilities(self) -> frozenset[Capability]:
        every: set[Capability] = {"nbest", "alignment", "prefix", "required", "sampling", "token_scores"}
        return frozenset(every | ({"trees"} if self.model.reads_trees else set()))

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        encoded = self.encode(requests, search)
        outputs = BatchedResults(_lengths(encoded), empty=[NOTHING], on_progress=on_progress)
        required = [i for i, one in enumerate(encoded) if one.required]
        for places in outputs.batches(batch_tokens=search.batch_tokens, rows=search.beam, alone=required):
            part = self._batch_of([encoded[i] for i in places], search)
            found = self._search_batch(part, beam_options(search, part.rules), alignment=alignment)
            outputs.put(places, self._hypotheses(part, [many[: search.nbest] for many in found]))
        return outputs.results

    def _search_batch(self, part: _Batch, plan: BeamOptions, *, alignment: bool) -> list[list[DecodedSequence]]:
        head = self.alignment_head if alignment else None
        if not part.required:
            return beam_search(
                part.model,
                part.batch,
                plan,
                max_lengths=part.max_lengths,
                want_attention=alignment,
                head=head,
            )
        edges = self.tokenizers.target.word_edges
        found = required_search(
            part.model,
            part.batch,
            plan,
            part.required,
            edges if part.subset is None else edges.select(part.subset.ids.tolist()),
            max_length=part.max_lengths[0],
            want_attention=alignment,
            head=head,
        )
        return [found]

    def _sample(self, requests: list[Request], options: SamplingConfig, *, on_progress: Progress) -> Outputs:
        encoded, search = self.encode(requests, self.search), self.search
        outputs = BatchedResults(_lengths(encoded), empty=[NOTHING], on_progress=on_progress)
        for places in outputs.batches(batch_tokens=search.batch_tokens, rows=options.samples):
            part = self._batch_of([encoded[i] for i in places], search)
            found = sample(
                part.model,
                part.batch,
                options=options,
                max_lengths=part.max_lengths,
                prefixes=part.rules.prefixes or None,
                keys=part.keys(),
                rules=replace(part.rules, prefixes=()),
            )
            outputs.put(places, self._hypotheses(part, found))
        return outputs.results

    def _hypotheses(self, part: _Batch, found: Sequence[Sequence[DecodedSequence]]) -> Outputs:
        """Return the hypotheses of a batch in the tokens of the whole vocabulary, as text."""
        whole = (lambda one: one) if part.subset is None else part.subset.to_full
        return [
            [self._hypothesis(encoded.source, whole(one)) for one in many]
            for encoded, many in zip(part.encoded, found, strict=True)
        ]

    def encode(self, requests: Sequence[Request], search: SearchConfig) -> list[Encoded]:
        """Return the requests in tokens; a request that cannot be read is an error."""
        sources = read_sources(self.tokenizers, [request.source for request in requests])
        heads = [request.tree for request in requests]
        found = token_trees(self.tokenizers, sources, heads, "Line")
        trees: Sequence[list[int] | None] = [None] * len(requests) if found is None else found
        return [
            Encoded(
                request,
                source,
                tree,
                self._prefix(request.prefix),
                self._phrases((*search.require, *request.required)),
            )
            for request, source, tree in zip(requests, sources, trees, strict=True)
        ]

    def problem(self, request: Request, search: SearchConfig) -> Problem:
        """Return the search for a request that is not empty, for the reference decoder."""
        (one,) = self.encode([request], search)
        sentence = self.batch([one])
        prefixes = [one.prefix] if one.prefix else []
        model = self.model
        if search.shortlist:
            model = RestrictedVocabulary(self.model, self._allowed(sentence, [one])[0])
        return Problem(
            model,
            sentence,
            beam_options(search, self._rules(search, prefixes)),
            *self._max_lengths(search, [one]),
        )

    def _batch_of(self, encoded: list[Encoded], search: SearchConfig) -> _Batch:
        """Return the batch of these requests, over the tokens of their shortlists if that is asked for."""
        batch, limits = self.batch(encoded), self._max_lengths(search, encoded)
        prefixes = [one.prefix for one in encoded] if any(one.prefix for one in encoded) else []
        rules = self._rules(search, prefixes)
        if not search.shortlist:
            return _Batch(encoded, self._model(encoded, _whole), batch, rules, limits, None)
        subset = VocabularySubset(self._allowed(batch, encoded))
        model = self._model(encoded, subset.narrowed)
        return _Batch(encoded, model, batch, subset.rules(rules), limits, subset)

    def batch(self, encoded: Sequence[Encoded]) -> Batch:
        """Return the sources as the model reads them, in order."""
        trees = [one.tree for one in encoded if one.tree is not None]
        sources = [one.source for one in encoded]
        return collate_ids(
            sources, None, range(len(sources)), trees if len(trees) == len(sources) else None
        ).to(self.device)

    def _model(self, encoded: Sequence[Encoded], narrow: Callable[[StepModel], StepModel]) -> StepModel:
        """Return the model that decodes these requests; an ensemble may have to read them in other tokens."""
        return narrow(self.model)

    def _allowed(self, batch: Batch, encoded: Sequence[Encoded]) -> Tensor:
        """(B, V): the shortlist of every sentence."""
        needed = [[*one.prefix, *(token for phrase in one.required for token in phrase)] for one in encoded]
        return self.shortlist().allowed(batch.source, needed)

    def shortlist(self) -> Shortlist:
        """Return the table of likely translations; a model that has none is an error."""
        if not isinstance(self.model, AutoregressiveModel):
            raise SeqloomError(
                "search.shortlist makes the output layer smaller, and this model has no output layer.",
                "leave out search.shortlist",
            )
        if self._find_shortlist is None:
            raise SeqloomError(
                "This model has no shortlist.", "make one for its run by seqloom shortlist, and load the run"
            )
        return self._find_shortlist()

    def _prefix(self, text: str) -> list[int]:
        """Return the tokens that an output has to begin with."""
        ids = self.tokenizers.target.encode(text) if text else []
        if UNK in ids:
            raise SeqloomError(
                f"The prefix {quoted(text)} has words that are not in the target vocabulary, so no output can "
                "begin with it.",
                "leave the prefix out, or use only words of the target vocabulary",
            )
        return ids

    def _phrases(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the tokens of the words that an output has to contain."""
        phrases = []
        for word in dict.fromkeys(words):
            ids = tuple(self.tokenizers.target.encode(word))
            if UNK in ids:
                raise SeqloomError(
                    f"{word!r} is not in the target vocabulary, so it cannot be required.",
                    "leave it out of the required words",
                )
            if ids:
                phrases.append(ids)
        return phrases

    def _rules(self, search: SearchConfig, prefixes: Sequence[list[int]]) -> Rules:
        """Return what outputs may contain, by these options and with these prefixes."""
        return Rules(
            prefixes=prefixes,
            forbidden=[ids for word in search.forbid if (ids := self.tokenizers.target.encode(word))],
            min_length=search.min_length,
            no_repeat=search.no_repeat,
        )

    def _max_lengths(self, search: SearchConfig, encoded: Sequence[Encoded]) -> list[int]:
        """Return the maximum length of every output: what the search allows and the model has positions for.

        There is always room for an end after the prefix.
        """
        limits = []
        for one in encoded:
            source_length = len(one.source) + self.tokenizers.source_end
            longest = search.max_length(source_length)
            most = self.model.max_target_length(source_length)
            limits.append(max(longest if most is None else min(longest, most), len(one.prefix) + 1))
        return limits

    def _hypothesis(self, source: Row, found: DecodedSequence) -> Hypothesis:
        alignment: tuple[tuple[float, ...], ...] = ()
        if found.attention is not None:
            rows = found.attention[:, : len(source) + self.tokenizers.source_end].tolist()
            if self.alignment_head and self.alignment_head.shifted:
                rows = [*rows[1:], rows[-1]]
            alignment = tuple(tuple(row) for row in rows)
        return Hypothesis(
            text=self.tokenizers.target.decode(found.tokens),
            score=found.score,
            log_prob=sum(found.log_probs),
            tokens=tuple(self.tokenizers.target.pieces(found.tokens)),
            token_log_probs=tuple(found.log_probs),
            source_tokens=tuple(self.tokenizers.source_pieces(source)),
            alignment=alignment,
            finished=found.finished,
        )


def _lengths(encoded: Sequence[Encoded]) -> list[int]:
    return [len(one.source) for one in encoded]


def _whole(model: StepModel) -> StepModel:
    """Return the model over its whole vocabulary."""
    return model


def read_sources(tokenizers: TokenizerPair, lines: Sequence[str]) -> list[Row]:
    """Return the source tokens or frames of every line; a feature file that cannot be read is an error."""
    sources: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            sources.append(tokenizers.reader.encode(line))
        except UnreadableFrames as fault:
            raise SeqloomError(f"Line {number} of {len(lines)}: {fault.message}", fault.hint) from fault
    return sources
