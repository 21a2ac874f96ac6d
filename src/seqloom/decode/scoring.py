"""Scoring of given texts: log-probabilities by teacher forcing, and comparable perplexities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from seqloom.data.batching import collate_ids
from seqloom.data.syntax import token_trees
from seqloom.decode.config import SearchConfig
from seqloom.decode.pipeline import BatchedResults, Progress
from seqloom.decode.torch_translator import read_sources
from seqloom.errors import SeqloomError
from seqloom.models.base import SequenceModel
from seqloom.text.config import MASK
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK, Batch, DependencyTree, StepModel

_LOGITS = 1 << 22  # held at a time: 16 MB in float32

Pair = tuple[str, str]  # source and target; the source of plain text is empty


@dataclass(frozen=True, slots=True)
class SequenceScore:
    """Model score of one given target."""

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]  # one per token, then the end of sentence if the model predicts it
    unknown: int = 0  # tokens outside the vocabulary, all scored as the same token

    @property
    def log_prob(self) -> float:
        """log P(target | source)."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """Log-probability per token."""
        return self.log_prob / max(1, len(self.log_probs))

    @property
    def ends(self) -> int:
        """1 if the end of the text is scored, else 0."""
        return len(self.log_probs) - len(self.tokens)


class Scorer(Protocol):
    """Interface of all scorers of targets."""

    def score(self, pairs: Sequence[Pair], *, on_progress: Progress | None = None) -> list[SequenceScore]:
        """Return the score of each target, in order."""
        ...


class ForcedScorer:
    """Scorer by teacher forcing: log p(y_t | x, y_<t) of each target token and of the end.

    The score of a pair does not depend on the other pairs. `heads` are the dependency trees of the sources, for
    models that read them.
    """

    def __init__(
        self,
        model: StepModel,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model, self.tokenizers, self.device = model, tokenizers, torch.device(device)
        self.batch_tokens = search.batch_tokens

    @torch.inference_mode()
    def score(
        self,
        pairs: Sequence[Pair],
        *,
        heads: Sequence[DependencyTree | None] | None = None,
        on_progress: Progress | None = None,
    ) -> list[SequenceScore]:
        """Return the score of each target given its source, in order."""
        sources = read_sources(self.tokenizers, [source for source, _ in pairs])
        for number, source in enumerate(sources, 1):
            if not len(source) + self.tokenizers.source_end:
                raise SeqloomError(
                    f"Pair {number} of {len(pairs)} cannot be scored: its source has no frames.",
                    "leave the pair out",
                )
        targets = [self.tokenizers.target.encode(target) for _, target in pairs]
        trees = token_trees(self.tokenizers, sources, heads, "Pair")
        widths = [max(map(len, both)) + 1 for both in zip(sources, targets, strict=True)]
        scores = BatchedResults(widths, empty=SequenceScore((), ()), on_progress=on_progress)
        for places in scores.batches(batch_tokens=self.batch_tokens):
            given = None if trees is None else [trees[i] for i in places]
            batch_targets = [targets[i] for i in places]
            batch = collate_ids([sources[i] for i in places], batch_targets, places, given).to(self.device)
            rows = forced_log_probs(self.model, batch).split_with_sizes([len(ids) + 1 for ids in batch_targets])
            both = zip(batch_targets, rows, strict=True)
            scores.put(places, [_score(self.tokenizers, ids, row.tolist()) for ids, row in both])
        return scores.results


class MaskedScorer:
    """Scorer of a masked language model: log p(x_t | the rest of x) of each token, each masked in turn.

    Salazar et al. 2020, eq. 2. The product is not a probability of the text, so the perplexity computed from it
    is called a pseudo-perplexity.
    """

    def __init__(
        self,
        model: SequenceModel,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model, self.tokenizers, self.device = model, tokenizers, torch.device(device)
        self.batch_tokens = search.batch_tokens
        self.mask = tokenizers.source.symbol(MASK)

    @torch.inference_mode()
    def score(
        self,
        pairs: Sequence[Pair],
        *,
        heads: object = None,
        on_progress: Progress | None = None,
    ) -> list[SequenceScore]:
        """Return the score of each target, in order; sources and trees are ignored."""
        texts = [self.tokenizers.source.encode(text) for _, text in pairs]
        masked = [(i, t) for i, text in enumerate(texts) for t in range(len(text))]
        report = on_progress or (lambda texts: None)
        report(sum(not text for text in texts))
        values = BatchedResults([len(texts[i]) for i, _ in masked], empty=0.0)
        for rows in values.batches(batch_tokens=self.batch_tokens):
            places = [masked[row] for row in rows]
            values.put(rows, self._masked_log_probs(texts, places))
            report(sum(t + 1 == len(texts[i]) for i, t in places))
        in_order = iter(values.results)
        return [_score(self.tokenizers, text, list(islice(in_order, len(text)))) for text in texts]

    def _masked_log_probs(self, texts: list[list[int]], places: list[tuple[int, int]]) -> list[float]:
        """Return the log-probability of the token at each place (text, position) when it is masked."""
        batch = collate_ids([texts[i] for i, _ in places], None, range(len(places))).to(self.device)
        rows = torch.arange(len(places), device=self.device)
        columns = torch.tensor([t for _, t in places], device=self.device)
        targets = batch.source[rows, columns]
        batch.source[rows, columns] = self.mask
        values: list[float] = _log_probs(
            self.model.hidden(batch)[rows, columns], self.model.output, targets
        ).tolist()
        return values


def forced_log_probs(model: StepModel, batch: Batch) -> Tensor:
    """Return log p of each real target token, row by row; decodes step by step if the model has no `hidden`."""
    assert batch.target_in is not None and batch.target_out is not None
    real = batch.target_mask
    if isinstance(model, SequenceModel):
        return _log_probs(model.hidden(batch)[real], model.output, batch.target_out[real])
    memory, state = model.start(batch)
    columns = []
    for last, targets in zip(batch.target_in.T, batch.target_out.T, strict=True):
        log_probs, state, _ = model.step(memory, state, last)
        columns.append(log_probs.gather(1, targets.unsqueeze(1)))
    return torch.cat(columns, dim=1)[real]


@torch.inference_mode()
def forced_attention(model: StepModel, batch: Batch) -> Tensor | None:
    """Return the attention (B, T, L, H, S) for each target token and the end, or None if the model has none."""
    assert batch.target_in is not None
    memory, state = model.start(batch)
    attentions = []
    for last in batch.target_in.T:
        _, state, attention = model.step(memory, state, last)
        if attention is None:
            return None
        attentions.append(attention)
    return torch.stack(attentions, dim=1)


def _log_probs(hidden: Tensor, output: nn.Linear, targets: Tensor) -> Tensor:
    """Return log p of the target tokens (N,), given the input of the output layer (N, D)."""
    size = max(1, _LOGITS // output.out_features)
    parts = [
        -cross_entropy(output(hidden[i : i + size]), targets[i : i + size], reduction="none")
        for i in range(0, len(targets), size)
    ]
    return torch.cat(parts)


def _score(tokenizers: TokenizerPair, ids: list[int], log_probs: list[float]) -> SequenceScore:
    return SequenceScore(tuple(tokenizers.target.pieces(ids)), tuple(log_probs), ids.count(UNK))


@dataclass
class Totals:
    """Sums over lines, and their perplexities per token, and per word and byte of the original text.

    Words are separated by white space; bytes are those of UTF-8. If a model predicts the end of a line, the end
    counts as one token, one word and one byte (the line feed). So the numbers of words and bytes do not depend
    on the tokenizer, and models with different tokenizers can be compared.
    """

    lines: int = 0
    tokens: int = 0
    words: int = 0
    bytes: int = 0
    unknown: int = 0
    log_prob: float = 0.0

    def add(self, text: str, score: SequenceScore) -> None:
        """Add one line."""
        self.lines += 1
        self.tokens += len(score.log_probs)
        self.words += len(text.split()) + score.ends
        self.bytes += len(text.encode()) + score.ends
        self.unknown += score.unknown
        self.log_prob += score.log_prob

    def perplexity(self, count: int) -> float:
        """Return exp(-log P / count), where `count` is e.g. `tokens`."""
        mean = -self.log_prob / max(1, count)
        return math.exp(mean) if mean < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        return -self.log_prob / math.log(2) / max(1, self.bytes)
