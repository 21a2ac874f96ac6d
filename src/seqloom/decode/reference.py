"""What search means: one sentence and one hypothesis at a time, slow and easy to read.

`search.beam_search` returns what `reference_beam_search` returns, for every model and in every batch; a
property test holds it to that. `exhaustive_search` finds the best hypothesis there is, which tells how often a
beam misses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from seqloom.decode.search import Found
from seqloom.errors import SeqloomError
from seqloom.types import BOS, EOS, PAD, Batch, StepModel, Tree


class _Hypothesis(NamedTuple):
    """A target so far, with the model's state before its last token is fed."""

    tokens: tuple[int, ...]  # the end included, once it is said
    log_probs: tuple[float, ...]
    state: Tree

    @property
    def ended(self) -> bool:
        return self.tokens[-1:] == (EOS,)

    @property
    def total(self) -> float:
        """log P of all tokens."""
        return sum(self.log_probs)

    def score(self, length_penalty: float) -> float:
        """log P / length^penalty."""
        return self.total / math.pow(len(self.tokens), length_penalty)

    def found(self, length_penalty: float) -> Found:
        tokens = list(self.tokens[:-1] if self.ended else self.tokens)
        return Found(tokens, list(self.log_probs), self.score(length_penalty), self.ended, attention=None)


@torch.inference_mode()
def reference_beam_search(
    model: StepModel, sentence: Batch, *, beam: int, max_length: int, length_penalty: float = 1.0
) -> list[Found]:
    """The completed hypotheses of a batch of one sentence, best first, then those that were cut.

    At each length all continuations of the open hypotheses are ranked by log P. Those that end among the best
    `beam` are completed; the best `beam` that do not end stay open. The search is over when nothing is open,
    at the maximum length, or when `beam` hypotheses are completed and the score of none that is open is better
    than the best of theirs. Where fewer are completed, the open ones are cut and come after them.
    """
    memory, state = model.start(sentence)
    open_ = [_Hypothesis((), (), state)]
    completed: list[_Hypothesis] = []
    for _ in range(max_length):
        longer = [one for hypothesis in open_ for one in _continuations(model, sentence, memory, hypothesis)]
        ranked = sorted(longer, key=lambda one: one.total, reverse=True)
        completed += [one for one in ranked[:beam] if one.ended]
        open_ = [one for one in ranked if not one.ended][:beam]
        if not open_:
            break
        best = max((one.score(length_penalty) for one in completed), default=-math.inf)
        if len(completed) >= beam and best >= open_[0].score(length_penalty):
            break
    cut = open_ if len(completed) < beam else []
    found = [one.found(length_penalty) for one in (*completed, *cut)]
    return sorted(found, key=lambda one: (one.finished, one.score), reverse=True)


@torch.inference_mode()
def exhaustive_search(
    model: StepModel, sentence: Batch, *, max_length: int, length_penalty: float = 1.0, limit: int = 100_000
) -> Found:
    """The best of all hypotheses of at most the maximum length; one that is cut only if none can end.

    Depth first and the likeliest token first, as Stahlberg & Byrne 2019 (arXiv:1908.10090). log P only falls
    as a hypothesis grows, and the penalty divides by at most max_length^penalty, so

        score of any continuation <= log P so far / max_length^penalty,

    and a hypothesis whose bound is no better than the best score that is known need not be continued. After
    `limit` hypotheses that had to be continued the search gives up.
    """
    memory, state = model.start(sentence)
    waiting, divisor = [_Hypothesis((), (), state)], math.pow(max_length, length_penalty)
    best: Found | None = None
    cut: Found | None = None
    steps = 0
    while waiting:
        hypothesis = waiting.pop()
        if best is not None and hypothesis.total / divisor <= best.score:
            continue
        if len(hypothesis.tokens) == max_length:
            cut = _better(cut, hypothesis.found(length_penalty))
            continue
        if steps == limit:
            raise SeqloomError(
                f"The exact search gave up: {limit} hypotheses did not prove which one is best.",
                "use a smaller maximum length, a higher limit, or a beam",
            )
        steps += 1
        for one in sorted(_continuations(model, sentence, memory, hypothesis), key=lambda one: one.total):
            if one.ended:
                best = _better(best, one.found(length_penalty))
            else:
                waiting.append(one)
    answer = best or cut
    assert answer is not None, "some token always has a probability"
    return answer


def _better(known: Found | None, new: Found) -> Found:
    return new if known is None or new.score > known.score else known


def _continuations(
    model: StepModel, sentence: Batch, memory: Tree, hypothesis: _Hypothesis
) -> Iterator[_Hypothesis]:
    """The hypothesis with each token that can follow; padding and the start are never part of an answer."""
    last = hypothesis.tokens[-1] if hypothesis.tokens else BOS
    step = model.step(memory, hypothesis.state, sentence.source.new_tensor([last]))
    for token, log_prob in enumerate(step.log_probs[0].tolist()):
        if token not in (PAD, BOS) and log_prob > -math.inf:
            tokens, log_probs = (*hypothesis.tokens, token), (*hypothesis.log_probs, log_prob)
            yield _Hypothesis(tokens, log_probs, step.state)
