"""Translator with torch: a model with its tokenizers and search options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.data.encoding import Row
from seqloom.data.syntax import token_trees
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.constraints import Forms, Requirements, required_search
from seqloom.decode.exact import Problem, improve
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
from seqloom.text.word_edges import WordEdges
from seqloom.types import UNK, Batch, Head, Hypothesis, Request, StepModel


class Encoded(NamedTuple):
    """Request encoded as token ids."""

    request: Request
    source: Row
    tree: list[int] | None  # position of each token's head, from 1
    prefix: list[int]
    required: list[Forms]


@dataclass(frozen=True)
class _Batch:
    """Requests that are decoded together, over all tokens or those of their shortlists."""

    encoded: list[Encoded]
    model: StepModel
    inputs: Batch
    rules: Rules
    max_lengths: list[int]
    subset: VocabularySubset | None  # the tokens of model, rules and required phrases; None: all

    def requirements(self, edges: WordEdges) -> Requirements:
        """Return the phrases that the output of the only request must contain."""
        required, subset = self.encoded[0].required, self.subset
        if subset is None:
            return Requirements(required, edges)
        known = [tuple(tuple(subset.to_subset(phrase) or ()) for phrase in forms) for forms in required]
        return Requirements(known, edges.select(subset.ids.tolist()))

    def keys(self) -> list[int]:
        """Return the keys of the sentences' random numbers."""
        given = [one.request.key for one in self.encoded]
        found = keys_of(self.inputs, [one.prefix for one in self.encoded])
        return [key if own is None else own for own, key in zip(given, found, strict=True)]


class TorchTranslator(Translator):
    """Translator with any StepModel; the output for a line does not depend on the other lines.

    The alignment of an output is the attention of `alignment_head`, or the mean of all heads.
    """

    CAPABILITIES: ClassVar[frozenset[Capability]] = frozenset(
        {"nbest", "alignment", "prefix", "required", "sampling", "exact", "token_scores"}
    )
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
        trees: set[Capability] = {"trees"} if self.model.reads_trees else set()
        return self.CAPABILITIES | trees

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        return self._search_all(requests, search, search.nbest, alignment=alignment, on_progress=on_progress)

    def candidates(self, requests: Sequence[Request], *, on_progress: Progress) -> Outputs:
        """Return every hypothesis that the search ends with for each request, best first; it may be none.

        These are all hypotheses that another ranking can choose from: there may be more than `beam` of them.
        """
        self.check(self.search)
        return self._search_all(requests, self.search, None, alignment=False, on_progress=on_progress)

    def _exact(self, requests: list[Request], expand: int, *, on_progress: Progress) -> Outputs:
        known = self.translate(requests, nbest=1)
        outputs: Outputs = []
        for request, encoded, (start,) in zip(requests, self.encode(requests, self.search), known, strict=True):
            outputs.append(
                [self._improved(request, encoded.source, start, expand)] if len(encoded.source) else [start]
            )
            on_progress(1)
        return outputs

    def _improved(self, request: Request, source: Row, known: Hypothesis, expand: int) -> Hypothesis:
        """Return the best output, or the known one if none with a higher score is found."""
        problem = self.problem(request, self.search)
        found = improve(problem, is_finished=known.finished, score=known.score, limit=expand)
        best = known
        if found.best and (found.best.finished, found.best.score) > (known.finished, known.score):
            (best,) = self._flagged(request, [self._hypothesis(source, found.best)])
        return best if found.proved else replace(best, flags=(*best.flags, "unproven"))

    def _search_all(
        self,
        requests: Sequence[Request],
        search: SearchConfig,
        nbest: int | None,  # None: all
        *,
        alignment: bool,
        on_progress: Progress,
    ) -> Outputs:
        encoded = self.encode(requests, search)
        outputs = BatchedResults(_lengths(encoded), empty=[NOTHING], on_progress=on_progress)
        required = [i for i, one in enumerate(encoded) if one.required]
        for places in outputs.batches(batch_tokens=search.batch_tokens, rows=search.beam, alone=required):
            batch = self._batch_of([encoded[i] for i in places], search)
            found = self._search_batch(batch, beam_options(search, batch.rules), alignment=alignment)
            outputs.put(places, self._hypotheses(batch, [many[:nbest] for many in found]))
        return outputs.results

    def _search_batch(
        self, batch: _Batch, options: BeamOptions, *, alignment: bool
    ) -> list[list[DecodedSequence]]:
        head = self.alignment_head if alignment else None
        if not batch.encoded[0].required:
            return beam_search(
                batch.model,
                batch.inputs,
                options,
                max_lengths=batch.max_lengths,
                return_attention=alignment,
                head=head,
            )
        found = required_search(
            batch.model,
            batch.inputs,
            options,
            batch.requirements(self.tokenizers.target.word_edges),
            max_length=batch.max_lengths[0],
            return_attention=alignment,
            head=head,
        )
        return [found]

    def _sample(self, requests: list[Request], options: SamplingConfig, *, on_progress: Progress) -> Outputs:
        encoded, search = self.encode(requests, self.search), self.search
        outputs = BatchedResults(_lengths(encoded), empty=[NOTHING], on_progress=on_progress)
        for places in outputs.batches(batch_tokens=search.batch_tokens, rows=options.samples):
            batch = self._batch_of([encoded[i] for i in places], search)
            found = sample(
                batch.model,
                batch.inputs,
                options=options,
                max_lengths=batch.max_lengths,
                prefixes=batch.rules.prefixes or None,
                keys=batch.keys(),
                rules=replace(batch.rules, prefixes=()),
            )
            outputs.put(places, self._hypotheses(batch, found))
        return outputs.results

    def _hypotheses(self, batch: _Batch, found: Sequence[Sequence[DecodedSequence]]) -> Outputs:
        """Return the hypotheses of a batch as text, with tokens of the full vocabulary."""
        to_full = (lambda one: one) if batch.subset is None else batch.subset.to_full
        return [
            [self._hypothesis(encoded.source, to_full(one)) for one in many]
            for encoded, many in zip(batch.encoded, found, strict=True)
        ]

    def encode(self, requests: Sequence[Request], search: SearchConfig) -> list[Encoded]:
        """Return the requests as token ids; raise if one cannot be read."""
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
                self._required(search.require, request.required),
            )
            for request, source, tree in zip(requests, sources, trees, strict=True)
        ]

    def problem(self, request: Request, search: SearchConfig) -> Problem:
        """Return the search problem of a non-empty request, for the reference decoder."""
        (one,) = self.encode([request], search)
        sentence = self.batch([one])
        prefixes = [one.prefix] if one.prefix else []
        model = self._model([one], _full_vocabulary)
        if search.shortlist:
            model = RestrictedVocabulary(model, self._allowed(sentence, [one])[0])
        return Problem(
            model,
            sentence,
            beam_options(search, self._rules(search, prefixes)),
            *self._max_lengths(search, [one]),
        )

    def _batch_of(self, encoded: list[Encoded], search: SearchConfig) -> _Batch:
        """Return the batch of these requests, over the tokens of their shortlists if requested."""
        inputs, limits = self.batch(encoded), self._max_lengths(search, encoded)
        prefixes = [one.prefix for one in encoded] if any(one.prefix for one in encoded) else []
        rules = self._rules(search, prefixes)
        if not search.shortlist:
            return _Batch(encoded, self._model(encoded, _full_vocabulary), inputs, rules, limits, None)
        subset = VocabularySubset(self._allowed(inputs, encoded))
        model = self._model(encoded, subset.narrowed)
        return _Batch(encoded, model, inputs, subset.rules(rules), limits, subset)

    def batch(self, encoded: Sequence[Encoded]) -> Batch:
        """Return the padded sources, in order."""
        trees = [one.tree for one in encoded if one.tree is not None]
        sources = [one.source for one in encoded]
        return collate_ids(
            sources, None, range(len(sources)), trees if len(trees) == len(sources) else None
        ).to(self.device)

    def _model(self, encoded: Sequence[Encoded], narrow: Callable[[StepModel], StepModel]) -> StepModel:
        """Return the model for these requests; the members of an ensemble may tokenise them differently."""
        return narrow(self.model)

    def _allowed(self, batch: Batch, encoded: Sequence[Encoded]) -> Tensor:
        """Return the shortlist of each sentence as a mask, (B, V)."""
        needed = [[*one.prefix, *_tokens(one.required)] for one in encoded]
        return self.shortlist().allowed(batch.source, needed)

    def shortlist(self) -> Shortlist:
        """Return the table of likely translations; raise if the model has none."""
        if not isinstance(self.model, AutoregressiveModel):
            raise SeqloomError(
                "search.shortlist needs a model with an output layer, but this model has none.",
                "leave out search.shortlist",
            )
        if self._find_shortlist is None:
            raise SeqloomError(
                "This model has no shortlist.", "build one with seqloom shortlist RUN, then load the run"
            )
        return self._find_shortlist()

    def _prefix(self, text: str | tuple[str, ...]) -> list[int]:
        """Return the tokens with which an output must begin."""
        if isinstance(text, tuple):
            return self.tokenizers.target.ids_of(text)
        ids = self.tokenizers.target.encode(text) if text else []
        if UNK in ids:
            raise SeqloomError(
                f"The prefix {quoted(text)} contains words outside the target vocabulary, so no output can "
                "begin with it.",
                "leave the prefix out, or use only words of the target vocabulary",
            )
        return ids

    def _required(self, always: Sequence[str], own: Sequence[str | tuple[str, ...]]) -> list[Forms]:
        """Return the phrases that an output must contain; a phrase in both lists is required once."""
        both = Counter[str | tuple[str, ...]](always) | Counter(own)
        return [found for one in both.elements() if (found := self._forms(one))]

    def _forms(self, phrase: str | tuple[str, ...]) -> Forms:
        """Return the tokens of a phrase, or of all its forms, after a space and after another character."""
        forms = phrase if isinstance(phrase, tuple) else (phrase,)
        target = self.tokenizers.target
        possible = [form for form in forms if UNK not in target.encode(form)]
        if forms and not possible:
            raise SeqloomError(
                f"{forms[0]!r} is not in the target vocabulary, so it cannot be required.",
                "leave it out of the required words",
            )
        found = [ids for form in possible for ids in (target.encode(form), target.encode_inside(form))]
        return tuple(dict.fromkeys(tuple(ids) for ids in found if ids and UNK not in ids))

    def can_generate(self, text: str) -> bool:
        ids = self.tokenizers.target.encode(text)
        return UNK not in ids and self.tokenizers.target.decode(ids) == text

    def _rules(self, search: SearchConfig, prefixes: Sequence[list[int]]) -> Rules:
        """Return the output constraints for these options and prefixes."""
        return Rules(
            prefixes=prefixes,
            forbidden=[ids for word in search.forbid if (ids := self.tokenizers.target.encode(word))],
            min_length=search.min_length,
            no_repeat=search.no_repeat,
        )

    def _max_lengths(self, search: SearchConfig, encoded: Sequence[Encoded]) -> list[int]:
        """Return the maximum length of each output, limited by the search options and the model's positions.

        It always leaves room for an end after the prefix.
        """
        limits = []
        for one in encoded:
            source_length = len(one.source) + self.tokenizers.source_end
            longest = search.max_length(source_length)
            model_limit = self.model.max_target_length(source_length)
            limit = longest if model_limit is None else min(longest, model_limit)
            limits.append(max(limit, len(one.prefix) + 1))
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


def _tokens(required: Sequence[Forms]) -> Iterator[int]:
    return (token for forms in required for phrase in forms for token in phrase)


def _lengths(encoded: Sequence[Encoded]) -> list[int]:
    return [len(one.source) for one in encoded]


def _full_vocabulary(model: StepModel) -> StepModel:
    """Return the model over its full vocabulary."""
    return model


def read_sources(tokenizers: TokenizerPair, lines: Sequence[str]) -> list[Row]:
    """Return the source tokens or frames of each line; raise if a feature file cannot be read."""
    sources: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            sources.append(tokenizers.reader.encode(line))
        except UnreadableFrames as error:
            raise SeqloomError(f"Line {number} of {len(lines)}: {error.message}", error.hint) from error
    return sources
