"""Raw text in, raw text out: a model with its tokenizers and its search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.data.encoding import Row
from seqloom.data.syntax import token_trees
from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.plan import Found, plan_of
from seqloom.decode.reference import Among
from seqloom.decode.required import Phrases, required_search
from seqloom.decode.rules import Rules
from seqloom.decode.sampling import keys_of, sample
from seqloom.decode.search import beam_search
from seqloom.decode.shortlist import Choice, Shortlist
from seqloom.errors import SeqloomError
from seqloom.text.frames import UnreadableFrames
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK, Batch, Head, Heads, Hypothesis, StepModel


class _Asked(NamedTuple):
    """Lines, and what is asked of their answers, by line."""

    lines: Sequence[str]
    heads: Sequence[Heads | None] | None
    sources: list[Row]
    trees: list[list[int]] | None
    prefixes: list[list[int]]  # none if no beginning is given
    required: Sequence[Phrases]  # none if nothing is


class _Part(NamedTuple):
    """Lines that are decoded together, and how."""

    model: StepModel
    batch: Batch
    rules: Rules
    required: Phrases  # of a line that is alone
    max_lengths: list[int]
    choice: Choice | None  # what tokens the model, the rules and the required phrases have; None: all
    keys: Callable[[], list[int]]  # numbers that tell the lines apart by what they say


def _all(model: StepModel) -> StepModel:
    """The model over its whole vocabulary."""
    return model


class TorchTranslator:
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
        shortlist: Callable[[], Shortlist] | None = None,
    ) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.search = search
        self.device = torch.device(device)
        self.alignment_head = alignment_head
        self._find_shortlist = shortlist

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

        def found(part: _Part, places: list[int]) -> list[list[Found]]:
            plan, limits = plan_of(search, part.rules), part.max_lengths
            if words := part.required:
                edges = self.tokenizers.target.word_edges
                if part.choice is not None:
                    edges = edges.select(part.choice.ids.tolist())
                ranked = [
                    required_search(part.model, part.batch, plan, words, edges, max_length=limits[0], **looks)
                ]
            else:
                ranked = beam_search(part.model, part.batch, plan, max_lengths=limits, **looks)
            return [hypotheses[: search.nbest] for hypotheses in ranked]

        asked = self._asked(lines, heads, prefixes, phrases)
        return self._answers(asked, search, found, on_progress)

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

        def found(part: _Part, places: list[int]) -> list[list[Found]]:
            return sample(
                part.model,
                part.batch,
                options=options,
                max_lengths=part.max_lengths,
                prefixes=part.rules.prefixes or None,
                keys=part.keys() if keys is None else [keys[i] for i in places],
            )

        rows = self.search.model_copy(update={"beam": options.samples})  # for the budget of a batch
        return self._answers(self._asked(lines, heads, prefixes), rows, found, on_progress)

    def _asked(
        self,
        lines: Sequence[str],
        heads: Sequence[Heads | None] | None,
        prefixes: Sequence[str] | None,
        required: Sequence[Phrases] = (),
    ) -> _Asked:
        begun = [self.tokenizers.target.encode(text) for text in prefixes or ()]
        return _Asked(lines, heads, *self._read(lines, heads), begun, required)

    def _answers(
        self,
        asked: _Asked,
        search: SearchConfig,
        found: Callable[[_Part, list[int]], list[list[Found]]],
        on_progress: Callable[[int], None] | None,
    ) -> list[list[Hypothesis]]:
        """What is found for every line, in the order of the lines; one of which words are required is alone."""
        answers: list[list[Hypothesis]] = [[Hypothesis(text="", score=0.0)] for _ in asked.lines]
        if on_progress:
            on_progress(sum(not len(ids) for ids in asked.sources))
        alone = {i for i, phrases in enumerate(asked.required) if phrases and len(asked.sources[i])}
        lengths = [0 if i in alone else len(ids) for i, ids in enumerate(asked.sources)]
        for group in (*([i] for i in sorted(alone)), *batches_by_length(lengths, search)):
            part = self._part(asked, group, search)
            for i, hypotheses in zip(group, found(part, group), strict=True):
                ours = [one if part.choice is None else part.choice.outward(one) for one in hypotheses]
                answers[i] = [self._hypothesis(asked.sources[i], one) for one in ours]
            if on_progress:
                on_progress(len(group))
        return answers

    def _part(self, asked: _Asked, group: list[int], search: SearchConfig) -> _Part:
        """What is decoded for these of the lines, over the tokens of their shortlists if that is asked for."""
        lines, heads = [asked.lines[i] for i in group], asked.heads and [asked.heads[i] for i in group]
        sources = [asked.sources[i] for i in group]
        batch = self._batch(sources, asked.trees and [asked.trees[i] for i in group])
        begun = [asked.prefixes[i] for i in group] if asked.prefixes else []
        words = asked.required[group[0]] if asked.required else []
        limits, rules = self.limits(search, sources, begun), self.rules(search, begun)
        keys = partial(keys_of, batch, begun or [()] * len(group))
        if not search.shortlist:
            return _Part(self._model(lines, heads, _all), batch, rules, words, limits, None, keys)
        choice = Choice(self._allowed(batch, begun, words))
        model = self._model(lines, heads, choice.narrowed)
        phrases = [choice.inward(phrase) or () for phrase in words]
        return _Part(model, batch, choice.rules(rules), phrases, limits, choice, keys)

    def _allowed(self, batch: Batch, prefixes: Sequence[Sequence[int]], required: Phrases = ()) -> Tensor:
        """(B, V): the shortlist of every sentence."""
        words = [token for phrase in required for token in phrase]
        others = [[*prefix, *words] for prefix in prefixes or [()] * len(batch.source)]
        return self.shortlist().allowed(batch.source, others)

    def shortlist(self) -> Shortlist:
        """The table of the likely translations of every token; that there is none is an error."""
        if not hasattr(self.model, "step_hidden"):
            raise SeqloomError(
                "A shortlist makes a model's output layer shorter, and this one offers none (step_hidden).",
                "leave out search.shortlist",
            )
        if self._find_shortlist is None:
            raise SeqloomError(
                "This model has no shortlist.", "make one of its run by seqloom shortlist, and load the run"
            )
        return self._find_shortlist()

    def among(self, sentence: Batch, search: SearchConfig, prefixes: Sequence[Sequence[int]]) -> StepModel:
        """What the reference decoder asks about one sentence: the model, kept to its shortlist if so wanted."""
        if not search.shortlist:
            return self.model
        return Among(self.model, self._allowed(sentence, prefixes)[0])

    def _model(
        self,
        lines: Sequence[str],
        heads: Sequence[Heads | None] | None,
        narrow: Callable[[StepModel], StepModel],
    ) -> StepModel:
        """What decodes these lines: the same for all, unless it has to read them in another way."""
        return narrow(self.model)

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
        room = [self.model.max_target_length(n) for n in lengths]
        longest = [
            min(search.max_length(n), most or search.max_length(n))
            for n, most in zip(lengths, room, strict=True)
        ]
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
