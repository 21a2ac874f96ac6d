"""What an answer must, may and must not say: rules that take tokens out of the next step's distribution."""

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
    """The rules of a batch. What is left keeps the log-probability that the model gave it."""

    prefixes: Sequence[Ids] = ()  # what the answer to each sentence begins with
    context: Ids = ()  # a text that all outputs continue: its tokens count for the rules below
    forbidden: Sequence[Ids] = ()  # token sequences that no answer contains
    allowed: Tensor | None = None  # (V,) True: the only tokens that answers are made of
    min_length: int = 0  # tokens before the end
    no_repeat: int = 0  # no sequence of so many tokens stands twice in an answer; 0: any may

    def apply(self, log_probs: Tensor, tokens: Tensor, sentences: Callable[[], Tensor]) -> None:
        """Takes out, in place, what must not follow the tokens so far (R, t).

        A prefix is said whatever the other rules are; only then it is asked to which sentence each row belongs.
        """
        forced = self._forced(tokens.shape[1], sentences)
        if self.context:
            said = torch.tensor(self.context, dtype=tokens.dtype, device=tokens.device)
            tokens = torch.cat((said.expand(len(tokens), -1), tokens), dim=1)
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
        """The rows whose prefix is not yet said, and its next token in each; None if there are none."""
        following = [prefix[length] if len(prefix) > length else -1 for prefix in self.prefixes]
        if not any(token >= 0 for token in following):
            return None
        of_rows = sentences()
        wanted = torch.tensor(following, device=of_rows.device)[of_rows]
        rows = (wanted >= 0).nonzero().squeeze(1)
        return rows, wanted[rows]

    def _forbid(self, log_probs: Tensor, tokens: Tensor, sequence: Ids) -> None:
        """The last token of a sequence, where the others have just been said."""
        before = len(sequence) - 1
        if before > tokens.shape[1]:
            return
        start = torch.tensor(sequence[:-1], dtype=tokens.dtype, device=tokens.device)
        said = (tokens[:, tokens.shape[1] - before :] == start).all(dim=1)
        log_probs[said, sequence[-1]] = -math.inf

    def _forbid_repeats(self, log_probs: Tensor, tokens: Tensor) -> None:
        """Every token that has followed before what has just been said, n - 1 tokens long."""
        n, length = self.no_repeat, tokens.shape[1]
        windows = tokens.unfold(1, n, 1)  # (R, t - n + 1, n): all sequences of n tokens
        newest = tokens[:, length - n + 1 :].unsqueeze(1)
        again = (windows[:, :, : n - 1] == newest).all(dim=2)  # for n = 1 every token that was said
        rows, places = again.nonzero(as_tuple=True)
        log_probs[rows, windows[rows, places, n - 1]] = -math.inf
