"""Text generation from a prompt with a language model, by sampling or beam search."""

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

# The search options that apply to text generation; the others refer to a source.
SEARCH_OPTIONS = frozenset(SearchConfig.model_fields) - {
    "require",
    "shortlist",
    "coverage_penalty",
    "max_length_factor",
    "max_length_extra",
}


class Generator:
    """Text generator with a language model: the source is empty, and the prompt is the beginning of the target.

    A prompt is tokenised like a complete text: its last word is not continued, and trailing spaces are dropped,
    because the next word starts with its own (a character tokenizer keeps them: each is a token).
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
                f"leave it out, or reset the run's value with --set search.{ignored[0]}={default}; "
                "set the maximum length with search.longest or --max-length",
            )
        self.model, self.tokenizer, self.search = model, tokenizer, search
        self.max_length = max_length  # tokens of a text, including the prompt and the end
        self.device = torch.device(device)

    def encode(self, prompt: str) -> list[int]:
        """Return the token ids of a prompt."""
        return self.tokenizer.encode(prompt if self.tokenizer.settings.kind == "char" else prompt.rstrip())

    def sample(
        self, prompts: Sequence[str], options: SamplingConfig, *, max_length: int | None = None
    ) -> list[list[Hypothesis]]:
        """Return sampled texts for each prompt; they depend only on the seed and the prompt."""
        prefixes, limit = self._prefixes(prompts, max_length)
        texts = BatchedResults([limit] * len(prompts), empty=list[Hypothesis]())
        for places in texts.batches(batch_tokens=self.search.batch_tokens, rows=options.samples):
            group = [prefixes[i] for i in places]
            found = sample(
                self.model,
                self._empty_sources(len(group)),
                options=options,
                max_lengths=[limit] * len(group),
                prefixes=group,
                rules=self._rules(),
            )
            hypotheses = [
                [self._hypothesis(prefix, one, given=len(prefix)) for one in samples]
                for prefix, samples in zip(group, found, strict=True)
            ]
            texts.put(places, hypotheses)
        return _checked(prompts, texts.results)

    def beam(
        self,
        prompts: Sequence[str],
        beam: int | None = None,
        *,
        nbest: int | None = None,
        max_length: int | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the best texts that beam search finds for each prompt, best first.

        The beam size and the number of texts default to those of the run.
        """
        prefixes, limit = self._prefixes(prompts, max_length)
        search, texts = self.search.changed(beam, nbest), []
        for prefix in prefixes:
            (found,) = beam_search(
                ContinuationModel(self.model, prefix),
                self._empty_sources(1),
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
                    f"The prompt has {len(prefix)} tokens, but a text may have at most {limit} with its end "
                    f"(prompt: {self.tokenizer.decode(prefix)[:40]!r}...).",
                    "shorten the prompt or raise --max-length",
                )
        return prefixes, limit

    def _empty_sources(self, count: int) -> Batch:
        return collate_ids([[]] * count, None, range(count)).to(self.device)

    def _hypothesis(self, prefix: list[int], found: DecodedSequence, *, given: int) -> Hypothesis:
        """Return the full text and the scores of the continuation, without the first `given` tokens found."""
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
    """Return the texts; raise if a prompt has no possible continuation."""
    for prompt, found in zip(prompts, texts, strict=True):
        if not found:
            raise SeqloomError(
                f"No text can continue {quoted(prompt)} under the search options.",
                "relax search.forbid, search.no_repeat or search.min_length, or raise --max-length",
            )
    return texts


@dataclass(frozen=True)
class ContinuationModel(StepModel):
    """StepModel that has already read a prompt, so that search starts after it."""

    model: StepModel
    prompt: Sequence[int]

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        memory, state = self.model.start(batch)
        last = torch.full_like(batch.source_lengths, BOS)
        for token in self.prompt:
            state, last = self.model.step(memory, state, last).state, torch.full_like(last, token)
        return memory, (state, last)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """Extend every row; in the first step, `last` is BOS and the last token of the prompt replaces it."""
        inner, prompt = state
        step = self.model.step(memory, inner, prompt.where(prompt != PAD, last))
        return step._replace(state=(step.state, torch.full_like(last, PAD)))

    def max_target_length(self, source_length: int) -> int | None:
        longest = self.model.max_target_length(source_length)
        return None if longest is None else longest - len(self.prompt)
