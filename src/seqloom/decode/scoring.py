"""How probable given texts are: log-probabilities by teacher forcing, and perplexities that can be compared."""

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

_LOGITS = 1 << 22  # alive at a time: 16 MB in float32

Pair = tuple[str, str]  # source and target; of plain text the source is empty


@dataclass(frozen=True, slots=True)
class SequenceScore:
    """What a model thinks of one given target."""

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]  # one per token, and the end's last if the model tells where a text ends
    unknown: int = 0  # tokens outside of the vocabulary, scored as if all of them were one

    @property
    def log_prob(self) -> float:
        """log P(target | source)."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """The log-probability per token."""
        return self.log_prob / max(1, len(self.log_probs))

    @property
    def ends(self) -> int:
        """1 if the end of the text is scored, too."""
        return len(self.log_probs) - len(self.tokens)


class Scorer(Protocol):
    """What scores targets, whatever the model."""

    def score(self, pairs: Sequence[Pair], *, on_progress: Progress | None = None) -> list[SequenceScore]:
        """The score of every target, in order."""
        ...


class ForcedScorer:
    """log p(y_t | x, y_<t) of every target token and of the end, by teacher forcing.

    The score of a pair is the same alone or among others. `heads` are the trees of the sources, for models
    that read them.
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
        """The score of every target given its source, in order."""
        sources = read_sources(self.tokenizers, [source for source, _ in pairs])
        for number, source in enumerate(sources, 1):
            if not len(source) + self.tokenizers.source_end:
                raise SeqloomError(
                    f"Pair {number} of {len(pairs)} cannot be scored: there is no frame in its source.",
                    "leave it out",
                )
        targets = [self.tokenizers.target.encode(target) for _, target in pairs]
        trees = token_trees(self.tokenizers, sources, heads, "Pair")
        widths = [max(map(len, both)) + 1 for both in zip(sources, targets, strict=True)]
        scores = BatchedResults(widths, empty=SequenceScore((), ()), on_progress=on_progress)
        for places in scores.batches(batch_tokens=self.batch_tokens):
            given = None if trees is None else [trees[i] for i in places]
            wanted = [targets[i] for i in places]
            batch = collate_ids([sources[i] for i in places], wanted, places, given).to(self.device)
            rows = forced_log_probs(self.model, batch).split_with_sizes([len(ids) + 1 for ids in wanted])
            both = zip(wanted, rows, strict=True)
            scores.put(places, [_score(self.tokenizers, ids, row.tolist()) for ids, row in both])
        return scores.results


class MaskedScorer:
    """log p(x_t | the rest of x) of every token of a text, each hidden in turn (Salazar et al. 2020, eq. 2).

    Their product is no probability of the text, so what comes of it is called a pseudo-perplexity.
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
        """The scores of the tokens of every target, in order; sources and trees have no part in it."""
        texts = [self.tokenizers.source.encode(text) for _, text in pairs]
        hidden = [(i, t) for i, text in enumerate(texts) for t in range(len(text))]
        report = on_progress or (lambda texts: None)
        report(sum(not text for text in texts))
        values = BatchedResults([len(texts[i]) for i, _ in hidden], empty=0.0)
        for rows in values.batches(batch_tokens=self.batch_tokens):
            places = [hidden[row] for row in rows]
            values.put(rows, self._hidden_in_turn(texts, places))
            report(sum(t + 1 == len(texts[i]) for i, t in places))
        in_order = iter(values.results)
        return [_score(self.tokenizers, text, list(islice(in_order, len(text)))) for text in texts]

    def _hidden_in_turn(self, texts: list[list[int]], places: list[tuple[int, int]]) -> list[float]:
        """The log-probability of the token at each place (text, position)."""
        batch = collate_ids([texts[i] for i, _ in places], None, range(len(places))).to(self.device)
        rows = torch.arange(len(places), device=self.device)
        columns = torch.tensor([t for _, t in places], device=self.device)
        wanted = batch.source[rows, columns]
        batch.source[rows, columns] = self.mask
        values: list[float] = _log_probs(
            self.model.hidden(batch)[rows, columns], self.model.output, wanted
        ).tolist()
        return values


def forced_log_probs(model: StepModel, batch: Batch) -> Tensor:
    """Return log p of every real target token, row after row; step by step if the model has no `hidden`."""
    assert batch.target_in is not None and batch.target_out is not None
    real = batch.target_mask
    if isinstance(model, SequenceModel):
        return _log_probs(model.hidden(batch)[real], model.output, batch.target_out[real])
    memory, state = model.start(batch)
    columns = []
    for last, wanted in zip(batch.target_in.T, batch.target_out.T, strict=True):
        log_probs, state, _ = model.step(memory, state, last)
        columns.append(log_probs.gather(1, wanted.unsqueeze(1)))
    return torch.cat(columns, dim=1)[real]


@torch.inference_mode()
def forced_attention(model: StepModel, batch: Batch) -> Tensor | None:
    """(B, T, L, H, S): where every head looked before each target token and the end; None without attention."""
    assert batch.target_in is not None
    memory, state = model.start(batch)
    looked = []
    for last in batch.target_in.T:
        _, state, attention = model.step(memory, state, last)
        if attention is None:
            return None
        looked.append(attention)
    return torch.stack(looked, dim=1)


def _log_probs(hidden: Tensor, output: nn.Linear, wanted: Tensor) -> Tensor:
    """log p of the wanted tokens (N,), given what the output layer sees (N, D)."""
    size = max(1, _LOGITS // output.out_features)
    parts = [
        -cross_entropy(output(hidden[i : i + size]), wanted[i : i + size], reduction="none")
        for i in range(0, len(wanted), size)
    ]
    return torch.cat(parts)


def _score(tokenizers: TokenizerPair, ids: list[int], log_probs: list[float]) -> SequenceScore:
    return SequenceScore(tuple(tokenizers.target.pieces(ids)), tuple(log_probs), ids.count(UNK))


@dataclass
class Totals:
    """Sums over lines, and the perplexities they give: per token, and per word and byte of the text as written.

    A word is what stands between white space; bytes are those of UTF-8. Where a model tells the end of a line,
    the end is one token, one word and one byte (the line feed). So words and bytes do not depend on the
    tokenizer, and models with different ones can be compared.
    """

    lines: int = 0
    tokens: int = 0
    words: int = 0
    bytes: int = 0
    unknown: int = 0
    log_prob: float = 0.0

    def add(self, text: str, score: SequenceScore) -> None:
        """Counts one more line."""
        self.lines += 1
        self.tokens += len(score.log_probs)
        self.words += len(text.split()) + score.ends
        self.bytes += len(text.encode()) + score.ends
        self.unknown += score.unknown
        self.log_prob += score.log_prob

    def perplexity(self, count: int) -> float:
        """exp(-log P / count), e.g. of `tokens`."""
        mean = -self.log_prob / max(1, count)
        return math.exp(mean) if mean < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        return -self.log_prob / math.log(2) / max(1, self.bytes)
