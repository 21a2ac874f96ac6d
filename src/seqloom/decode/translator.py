"""Raw text in, raw text out: a model with its tokenizers and its search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from seqloom.data.batching import collate_ids
from seqloom.data.encoding import Row
from seqloom.data.syntax import token_trees
from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.plan import Found, plan_of
from seqloom.decode.required import required_search
from seqloom.decode.rules import Rules
from seqloom.decode.sampling import sample
from seqloom.decode.search import beam_search
from seqloom.errors import SeqloomError
from seqloom.text.frames import UnreadableFrames
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK, Batch, Head, Heads, Hypothesis, StepModel


class _Part(NamedTuple):
    """Lines that are decoded together."""

    places: list[int]  # which lines
    model: StepModel
    batch: Batch
    prefixes: list[list[int]]  # none if no beginning is given
    max_lengths: list[int]


class ModelTranslator:
    """Translates with any StepModel. The answer for a line is the same alone or among others.

    The alignment of an answer is the attention of one head, if one is named, or the mean of all.
    """

    def __init__(
        self,
        model: StepModel,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        device: torch.device | str = "cpu",
        alignment_head: Head | None = None,
    ) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.search = search
        self.device = torch.device(device)
        self.alignment_head = alignment_head

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam: int | None = None,
        nbest: int | None = None,
        alignment: bool = False,
        heads: Sequence[Heads | None] | None = None,
        prefixes: Sequence[str] | None = None,
        required: Sequence[Sequence[str]] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The n best hypotheses of every line, in the order of the lines; an empty line stays empty.

        `heads` are the trees of the lines, for a model that reads them; `prefixes` are what the answers begin
        with; `required` are words or phrases that the answer to a line contains, beside those of the search.
        """
        search = self.search.changed(beam, nbest)
        looks: dict[str, Any] = {"want_attention": alignment, "head": self.alignment_head}
        phrases = [self._phrases((*search.require, *words)) for words in required or [()] * len(lines)]

        def found(part: _Part) -> list[list[Found]]:
            plan = plan_of(search, self.rules(search, part.prefixes))
            model, batch, limits = part.model, part.batch, part.max_lengths
            if words := phrases[part.places[0]]:  # then the line is alone
                ranked = [required_search(model, batch, plan, words, max_length=limits[0], **looks)]
            else:
                ranked = beam_search(model, batch, plan, max_lengths=limits, **looks)
            return [hypotheses[: search.nbest] for hypotheses in ranked]

        return self._answers(lines, heads, prefixes, search, found, on_progress, alone=list(map(bool, phrases)))

    def sample(
        self,
        lines: Sequence[str],
        options: SamplingConfig,
        *,
        keys: Sequence[int] | None = None,
        heads: Sequence[Heads | None] | None = None,
        prefixes: Sequence[str] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Answers drawn for every line, in the order in which they are drawn; an empty line stays empty.

        Equal lines get equal samples, unless `keys`, such as line numbers, tell them apart.
        """

        def found(part: _Part) -> list[list[Found]]:
            return sample(
                part.model,
                part.batch,
                options=options,
                max_lengths=part.max_lengths,
                prefixes=part.prefixes or None,
                keys=None if keys is None else [keys[i] for i in part.places],
            )

        rows = self.search.model_copy(update={"beam": options.samples})  # for the budget of a batch
        return self._answers(lines, heads, prefixes, rows, found, on_progress)

    def _answers(
        self,
        lines: Sequence[str],
        heads: Sequence[Heads | None] | None,
        prefixes: Sequence[str] | None,
        search: SearchConfig,
        found: Callable[[_Part], list[list[Found]]],
        on_progress: Callable[[int], None] | None,
        alone: Sequence[bool] = (),
    ) -> list[list[Hypothesis]]:
        """What is found for every line, in the order of the lines; some are asked for alone."""
        sources, trees = self._read(lines, heads)
        begun = [self.tokenizers.target.encode(text) for text in prefixes or ()]
        answers: list[list[Hypothesis]] = [[Hypothesis(text="", score=0.0)] for _ in lines]
        if on_progress:
            on_progress(sum(not len(ids) for ids in sources))
        single = [[i] for i, wanted in enumerate(alone) if wanted and len(sources[i])]
        lengths = [0 if any(alone[i : i + 1]) else len(ids) for i, ids in enumerate(sources)]
        for group in (*single, *batches_by_length(lengths, search)):
            ours, given = [sources[i] for i in group], [begun[i] for i in group] if begun else []
            part = _Part(
                places=group,
                model=self._model([lines[i] for i in group], heads and [heads[i] for i in group]),
                batch=self._batch(ours, trees and [trees[i] for i in group]),
                prefixes=given,
                max_lengths=self.limits(search, ours, given),
            )
            for i, hypotheses in zip(group, found(part), strict=True):
                answers[i] = [self._hypothesis(sources[i], one) for one in hypotheses]
            if on_progress:
                on_progress(len(group))
        return answers

    def _model(self, lines: Sequence[str], heads: Sequence[Heads | None] | None) -> StepModel:
        """What decodes these lines: the same for all, unless it has to read them in another way."""
        return self.model

    def batch(self, lines: Sequence[str], heads: Sequence[Heads | None] | None = None) -> Batch:
        """The sources of these lines as the model reads them, in order."""
        return self._batch(*self._read(lines, heads))

    def _read(
        self, lines: Sequence[str], heads: Sequence[Heads | None] | None
    ) -> tuple[list[Row], list[list[int]] | None]:
        """The source tokens or frames of every line and, if all have trees, their heads."""
        sources = read_sources(self.tokenizers, lines)
        return sources, token_trees(self.tokenizers, sources, heads, "Line")

    def _batch(self, sources: list[Row], trees: list[list[int]] | None) -> Batch:
        return collate_ids(sources, None, range(len(sources)), trees).to(self.device)

    def _phrases(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of the words that an answer has to contain."""
        phrases = []
        for word in dict.fromkeys(words):
            ids = tuple(self.tokenizers.target.encode(word))
            if UNK in ids:
                raise SeqloomError(
                    f"The model cannot say {word!r}: it is not in its vocabulary.",
                    "leave it out of what is required",
                )
            if ids:
                phrases.append(ids)
        return phrases

    def rules(self, search: SearchConfig, prefixes: Sequence[list[int]]) -> Rules:
        """What answers may say, by these options and with these beginnings."""
        return Rules(
            prefixes=prefixes,
            forbidden=[ids for word in search.forbid if (ids := self.tokenizers.target.encode(word))],
            min_length=search.min_length,
            no_repeat=search.no_repeat,
        )

    def limits(self, search: SearchConfig, sources: list[Row], prefixes: list[list[int]]) -> list[int]:
        """The maximum length of every answer: what the search allows and the model has positions for.

        There is always room for an end behind what the answer begins with.
        """
        begun = [len(prefix) for prefix in prefixes] or [0] * len(sources)
        lengths = [len(ids) + self.tokenizers.source_end for ids in sources]
        room = getattr(self.model, "room", lambda source: None)
        longest = [min(search.max_length(n), room(n) or search.max_length(n)) for n in lengths]
        return [max(limit, prefix + 1) for limit, prefix in zip(longest, begun, strict=True)]

    def _hypothesis(self, source: Row, found: Found) -> Hypothesis:
        alignment: tuple[tuple[float, ...], ...] = ()
        if found.attention is not None:
            rows = found.attention[:, : len(source) + self.tokenizers.source_end].tolist()
            if self.alignment_head and self.alignment_head.later:
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


def read_sources(tokenizers: TokenizerPair, lines: Sequence[str]) -> list[Row]:
    """The source tokens or frames of every line; a file of features that cannot be read is an error."""
    sources: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            sources.append(tokenizers.reader.encode(line))
        except UnreadableFrames as fault:
            raise SeqloomError(f"Line {number} of {len(lines)}: {fault.message}", fault.hint) from fault
    return sources


def batches_by_length(lengths: Sequence[int], search: SearchConfig) -> Iterator[list[int]]:
    """Positions of lines of like length, longest first, within the token budget; empty lines are left out."""
    group: list[int] = []
    for i in sorted((i for i, n in enumerate(lengths) if n), key=lambda i: -lengths[i]):
        if group and (len(group) + 1) * (lengths[group[0]] + 1) * search.beam > search.batch_tokens:
            yield group
            group = []
        group.append(i)
    if group:
        yield group
