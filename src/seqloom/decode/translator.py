"""Raw text in, raw text out: a model with its tokenizers and its search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from seqloom.data.batching import collate_ids
from seqloom.data.syntax import token_heads
from seqloom.data.tables import Malformed
from seqloom.decode.config import SearchConfig
from seqloom.decode.plan import Found, Plan, plan_of
from seqloom.decode.rules import Rules
from seqloom.decode.search import beam_search
from seqloom.errors import SeqloomError
from seqloom.text.pair import TokenizerPair
from seqloom.types import Heads, Hypothesis, StepModel


class ModelTranslator:
    """Translates with any StepModel. The answer for a line is the same alone or among others."""

    def __init__(
        self,
        model: StepModel,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.search = search
        self.device = torch.device(device)

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

        `heads` are the trees of the lines, for a model that reads them; `prefixes` are what the answers begin
        with.
        """
        search = self._options(beam=beam, nbest=nbest)
        sources = [self.tokenizers.source.encode(line) for line in lines]
        trees = self._trees(sources, heads)
        begun = [self.tokenizers.target.encode(text) for text in prefixes or ()]
        answers: list[list[Hypothesis]] = [[Hypothesis(text="", score=0.0)] for _ in lines]
        if on_progress:
            on_progress(sum(not ids for ids in sources))
        for group in batches_by_length([len(ids) for ids in sources], search):
            given = None if trees is None else [trees[i] for i in group]
            rules = self._rules(search, [begun[i] for i in group] if begun else ())
            found = self._search([sources[i] for i in group], given, plan_of(search, rules), search, alignment)
            for i, hypotheses in zip(group, found, strict=True):
                answers[i] = [self._hypothesis(sources[i], one) for one in hypotheses[: search.nbest]]
            if on_progress:
                on_progress(len(group))
        return answers

    def _options(self, **given: int | None) -> SearchConfig:
        values = {name: value for name, value in given.items() if value is not None}
        return SearchConfig.checked({**self.search.model_dump(), **values}, "search")

    def _trees(self, sources: list[list[int]], heads: Sequence[Heads | None] | None) -> list[list[int]] | None:
        """The heads of the tokens of every line; None if any line but an empty one has no tree."""
        if heads is None or any(ids and tree is None for ids, tree in zip(sources, heads, strict=True)):
            return None
        trees: list[list[int]] = []
        for number, (ids, tree) in enumerate(zip(sources, heads, strict=True), 1):
            try:
                trees.append(token_heads(self.tokenizers.source, ids, tree or ()))
            except Malformed as fault:
                raise SeqloomError(
                    f"Line {number} of {len(sources)} cannot be translated with its tree: {fault}.",
                    "give one head for every word of the text",
                ) from fault
        return trees

    def _rules(self, search: SearchConfig, prefixes: Sequence[list[int]]) -> Rules:
        return Rules(
            prefixes=prefixes,
            forbidden=[ids for word in search.forbid if (ids := self.tokenizers.target.encode(word))],
            min_length=search.min_length,
            no_repeat=search.no_repeat,
        )

    def _search(
        self,
        sources: list[list[int]],
        trees: list[list[int]] | None,
        plan: Plan,
        search: SearchConfig,
        alignment: bool,
    ) -> list[list[Found]]:
        begun = [len(prefix) for prefix in plan.rules.prefixes] or [0] * len(sources)
        return beam_search(
            self.model,
            collate_ids(sources, None, range(len(sources)), trees).to(self.device),
            plan,
            max_lengths=[
                max(search.max_length(len(ids) + 1), prefix + 1)
                for ids, prefix in zip(sources, begun, strict=True)
            ],
            want_attention=alignment,
        )

    def _hypothesis(self, source: list[int], found: Found) -> Hypothesis:
        alignment: tuple[tuple[float, ...], ...] = ()
        if found.attention is not None:
            rows = found.attention[:, : len(source) + 1].tolist()
            alignment = tuple(tuple(row) for row in rows)
        return Hypothesis(
            text=self.tokenizers.target.decode(found.tokens),
            score=found.score,
            log_prob=sum(found.log_probs),
            tokens=tuple(self.tokenizers.target.pieces(found.tokens)),
            token_log_probs=tuple(found.log_probs),
            source_tokens=tuple(self.tokenizers.source.pieces(source)),
            alignment=alignment,
            finished=found.finished,
        )


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
