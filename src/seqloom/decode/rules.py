"""Output constraints: rules that exclude tokens from the distribution of the next step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seqloom.types import BOS, EOS, PAD

Ids = Sequence[int]


@dataclass(frozen=True)
class Rules:
    """Rules of a batch; allowed tokens keep the log-probability that the model gives them."""

    prefixes: Sequence[Ids] = ()  # forced beginning of the output of each sentence
    context: Ids = ()  # text that all outputs continue: the rules below apply to its tokens, too
    forbidden: Sequence[Ids] = ()  # token sequences that no output contains
    allowed: Tensor | None = None  # (V,) True: the only tokens that outputs contain
    min_length: int = 0  # minimum number of tokens before the end
    no_repeat: int = 0  # no n-gram of this size occurs twice in an output; 0 = off

    def apply(self, log_probs: Tensor, tokens: Tensor, sentences: Callable[[], Tensor]) -> None:
        """Set the log-probability of tokens that must not follow the tokens so far (R, t) to -inf, in place.

        A prefix takes precedence over the other rules. `sentences` returns the sentence of each row; it is
        called only if there are prefixes.
        """
        forced = self._forced(tokens.shape[1], sentences)
        if self.context:
            context = torch.tensor(self.context, dtype=tokens.dtype, device=tokens.device)
            tokens = torch.cat((context.expand(len(tokens), -1), tokens), dim=1)
        length = tokens.shape[1]
        kept = log_probs[forced] if forced else None
        log_probs[:, [PAD, BOS]] = -math.inf
        if length < self.min_length:
            log_probs[:, EOS] = -math.inf
        if self.allowed is not None:
            log_probs.masked_fill_(~self.allowed, -math.inf)
        for sequence in self.forbidden:
            self._forbid(log_probs, tokens, sequence)
        if 0 < self.no_repeat <= length:
            self._forbid_repeats(log_probs, tokens)
        if forced and kept is not None:
            log_probs[forced[0]] = -math.inf
            log_probs[forced] = kept

    def _forced(self, length: int, sentences: Callable[[], Tensor]) -> tuple[Tensor, Tensor] | None:
        """Return the rows with an incomplete prefix and the next token of each, or None if there are none."""
        following = [prefix[length] if len(prefix) > length else -1 for prefix in self.prefixes]
        if not any(token >= 0 for token in following):
            return None
        sentence_of_rows = sentences()
        forced = torch.tensor(following, device=sentence_of_rows.device)[sentence_of_rows]
        rows = (forced >= 0).nonzero().squeeze(1)
        return rows, forced[rows]

    def _forbid(self, log_probs: Tensor, tokens: Tensor, sequence: Ids) -> None:
        """Exclude the last token of a sequence from rows that end with its other tokens."""
        before = len(sequence) - 1
        if before > tokens.shape[1]:
            return
        start = torch.tensor(sequence[:-1], dtype=tokens.dtype, device=tokens.device)
        matches = (tokens[:, tokens.shape[1] - before :] == start).all(dim=1)
        log_probs[matches, sequence[-1]] = -math.inf

    def _forbid_repeats(self, log_probs: Tensor, tokens: Tensor) -> None:
        """Exclude every token that has already followed the last n - 1 tokens."""
        n, length = self.no_repeat, tokens.shape[1]
        windows = tokens.unfold(1, n, 1)  # (R, t - n + 1, n): all n-grams
        newest = tokens[:, length - n + 1 :].unsqueeze(1)
        repeats = (windows[:, :, : n - 1] == newest).all(dim=2)  # for n = 1, every token so far
        rows, places = repeats.nonzero(as_tuple=True)
        log_probs[rows, windows[rows, places, n - 1]] = -math.inf
