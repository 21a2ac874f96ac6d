"""Texts that continue a prompt, sampled from a language model or found by beam search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.options import DecodedSequence, beam_options
from seqloom.decode.pipeline import BatchedResults
from seqloom.decode.rules import Rules
from seqloom.decode.sampling import sample
from seqloom.errors import SeqloomError, quoted
from seqloom.text.normalize import check_texts
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, PAD, Batch, Hypothesis, Step, StepModel, Tree

# The search options that apply to texts: a text has no source, which the others refer to.
SEARCH_OPTIONS = frozenset(SearchConfig.model_fields) - {
    "require",
    "shortlist",
    "coverage_penalty",
    "max_length_factor",
    "max_length_extra",
}


class Generator:
    """Continues texts with a language model of plain text: its source is empty, the prompt begins the target.

    A prompt is cut into tokens as a text that ends there: its last word is taken as whole, and spaces at its
    end are left out, because the next word brings its own (of characters, each is a token, and all stay).
    """

    def __init__(
        self,
        model: StepModel,
        tokenizer: Tokenizer,
        search: SearchConfig,
        *,
        max_length: int,
        device: torch.device | str = "cpu",
    ) -> None:
        if ignored := search.differing(SearchConfig.model_fields.keys() - SEARCH_OPTIONS):
            default = SearchConfig.model_fields[ignored[0]].default
            raise SeqloomError(
                f"Generating text does not support search.{ignored[0]}.",
                f"leave it out, or reset the run's: --set search.{ignored[0]}={default}; "
                "the maximum length is search.longest or --max-length",
            )
        self.model, self.tokenizer, self.search = model, tokenizer, search
        self.max_length = max_length  # tokens of a text, its prompt's and its end included
        self.device = torch.device(device)

    def encode(self, prompt: str) -> list[int]:
        """The ids of a prompt."""
        return self.tokenizer.encode(prompt if self.tokenizer.settings.kind == "char" else prompt.rstrip())

    def sample(
        self, prompts: Sequence[str], options: SamplingConfig, *, max_length: int | None = None
    ) -> list[list[Hypothesis]]:
        """Return texts drawn for every prompt; they depend on the seed and the prompt alone."""
        prefixes, limit = self._prefixes(prompts, max_length)
        texts = BatchedResults([limit] * len(prompts), empty=list[Hypothesis]())
        for places in texts.batches(batch_tokens=self.search.batch_tokens, rows=options.samples):
            group = [prefixes[i] for i in places]
            found = sample(
                self.model,
                self._nothing(len(group)),
                options=options,
                max_lengths=[limit] * len(group),
                prefixes=group,
                rules=self._rules(),
            )
            both = zip(group, found, strict=True)
            texts.put(
                places,
                [[self._hypothesis(prefix, one, given=len(prefix)) for one in many] for prefix, many in both],
            )
        return _checked(prompts, texts.results)

    def beam(
        self,
        prompts: Sequence[str],
        beam: int | None = None,
        *,
        nbest: int | None = None,
        max_length: int | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the most probable texts that beam search finds for every prompt, best first.

        The size of the beam and the number of texts are by default those of the run.
        """
        prefixes, limit = self._prefixes(prompts, max_length)
        search, texts = self.search.changed(beam, nbest), []
        for prefix in prefixes:
            (found,) = beam_search(
                ContinuationModel(self.model, prefix),
                self._nothing(1),
                beam_options(search, replace(self._rules(), context=prefix)),
                max_lengths=[limit - len(prefix)],
            )
            texts.append([self._hypothesis(prefix, one, given=0) for one in found[: search.nbest]])
        return _checked(prompts, texts)

    def _limit(self, max_length: int | None) -> int:
        longest = self.search.longest or self.max_length
        return min(longest, self.max_length) if max_length is None else max_length

    def _rules(self) -> Rules:
        search = self.search
        return Rules(
            forbidden=[ids for word in search.forbid if (ids := self.tokenizer.encode(word))],
            min_length=search.min_length,
            no_repeat=search.no_repeat,
        )

    def _prefixes(self, prompts: Sequence[str], max_length: int | None) -> tuple[list[list[int]], int]:
        """Return the tokens of the prompts and the maximum length of a text."""
        check_texts(prompts)
        prefixes, limit = [self.encode(prompt) for prompt in prompts], self._limit(max_length)
        for prefix in prefixes:
            if len(prefix) >= limit:
                raise SeqloomError(
                    f"The prompt has {len(prefix)} tokens, and a text may have {limit} with its end "
                    f"(it begins with {self.tokenizer.decode(prefix)[:40]!r}).",
                    "shorten it or raise --max-length",
                )
        return prefixes, limit

    def _nothing(self, count: int) -> Batch:
        return collate_ids([[]] * count, None, range(count)).to(self.device)

    def _hypothesis(self, prefix: list[int], found: DecodedSequence, *, given: int) -> Hypothesis:
        """The whole text, and the numbers of what follows the prompt; `given` tokens found are the prompt's."""
        tokens, log_probs = found.tokens[given:], found.log_probs[given:]
        return Hypothesis(
            text=self.tokenizer.decode([*prefix, *tokens]),
            score=found.score if not given else sum(log_probs),
            log_prob=sum(log_probs),
            tokens=tuple(self.tokenizer.pieces(tokens)),
            token_log_probs=tuple(log_probs),
            finished=found.finished,
        )


def _checked(prompts: Sequence[str], texts: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
    """Return the texts; a prompt without any possible text is an error."""
    for prompt, found in zip(prompts, texts, strict=True):
        if not found:
            raise SeqloomError(
                f"No text can continue {quoted(prompt)} under the search options of the run.",
                "relax search.forbid, search.no_repeat or search.min_length, or raise --max-length",
            )
    return texts


@dataclass(frozen=True)
class ContinuationModel(StepModel):
    """A StepModel that has said a prompt already: search begins behind it."""

    model: StepModel
    prompt: Sequence[int]

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        memory, state = self.model.start(batch)
        last = torch.full_like(batch.source_lengths, BOS)
        for token in self.prompt:
            state, last = self.model.step(memory, state, last).state, torch.full_like(last, token)
        return memory, (state, last)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """At first `last` is the beginning of the answer; the model hears the last of the prompt instead."""
        inner, prompt = state
        step = self.model.step(memory, inner, prompt.where(prompt != PAD, last))
        return step._replace(state=(step.state, torch.full_like(last, PAD)))

    def max_target_length(self, source_length: int) -> int | None:
        longest = self.model.max_target_length(source_length)
        return None if longest is None else longest - len(self.prompt)
