"""The hidden Markov tagger: one tag per word, counted from pairs with equally many words and tags.

P(y, x) = Π a(y_{i−1}, y_i) b(y_i, x_i), with an end state after the last tag. b comes from P(tag | word) by
Bayes' rule, b(y, w) ∝ P(y | w) / P(y): factors that depend on the word alone cancel in P(y | x). An unseen word
is tagged by its ending, a seen one by its counts with the ending as the prior.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.registry import register
from seqloom.settings import ModelSettings
from seqloom.statistical.base import FitData
from seqloom.statistical.hmm.packed import Packed, pack
from seqloom.statistical.hmm.recursions import Chain, backward, viterbi
from seqloom.statistical.hmm.trellis import Trellis, trellis_of
from seqloom.statistical.hmm.words import Endings, Word, byte_table, spelling, words_of
from seqloom.statistical.state_reader import StateReader
from seqloom.text.pair import TokenizerPair
from seqloom.types import EOS, UNK, Batch, Step, StepModel, Tree, Vocabularies

_MAX_PROBABILITIES = 1 << 28  # words x tags, and tags x tags: 2 GB


class TaggerSettings(ModelSettings):
    SIZES: ClassVar = {"tiny": {}, "small": {}, "base": {}, "large": {}}

    name: str = "hmm"
    smoothing: float = Field(0.1, gt=0, description="counts added to every transition")
    endings: int = Field(5, ge=0, le=7, description="maximum length in bytes of the word endings used")
    theta: float = Field(1.0, gt=0, description="weight of the next shorter ending, in counts")
    rare: int = Field(10, ge=1, description="maximum count of words whose endings are used for unseen words")


@register(
    "hmm",
    summary="Hidden Markov tagger: one tag per word, estimated from counts",
    paper="Church 1988; Brants 2000, arXiv:cs/0003055",
    settings=TaggerSettings,
    fitted=True,
    defaults={"text.tokenizer": "word", "text.vocab_size": 1_000_000, "text.joint": False},
)
class Tagger(StepModel):
    """Exact P(y_i | y_{i−1}, x), so that the log P of a search is log P(tag sequence | text)."""

    def __init__(self, settings: TaggerSettings, vocabularies: Vocabularies) -> None:
        if vocabularies.features:
            raise SeqloomError(
                "The model hmm tags words, but the source is feature frames.", "use the model hmm-classifier"
            )
        self.settings, self.vocabularies = settings, vocabularies

    def fit(self, data: FitData) -> dict[str, float]:
        source = data.tokenizers.source
        byte_of = byte_table(source)
        pairs = list(_pairs(data.train, byte_of.tolist(), data.tokenizers))
        tags = torch.tensor(sorted({tag for _, row in pairs for tag in row}))
        self._check_size(len(tags))
        state_of = {tag: state for state, tag in enumerate(tags.tolist())}
        rows = [(words, [state_of[tag] for tag in row]) for words, row in pairs]
        seen, spelled = self._word_counts(rows, len(tags))
        state = {"tags": tags, "byte_of": byte_of, **self._transitions(rows, len(tags))}
        tag_counts = seen.sum(0) + sum(spelled.values())
        tag_probs = tag_counts / tag_counts.sum()
        endings = Endings.estimate(
            self._rare_words(seen, spelled, source.bytes_of(range(len(seen)))),
            tag_probs,
            longest=self.settings.endings,
            theta=self.settings.theta,
        )
        state |= {"tag_probabilities": torch.from_numpy(tag_probs), **endings.state_dict()}
        state["word_probabilities"] = self._word_probabilities(seen, endings, source.bytes_of(range(len(seen))))
        self.load_state_dict(state)
        return self._metrics(data)

    def _check_size(self, tags: int) -> None:
        if tags * max(tags, self.vocabularies.source) > _MAX_PROBABILITIES:
            raise SeqloomError(
                f"The targets have {tags:,} different tokens, which is too many for the tags of the model hmm.",
                "give pairs with one tag per word as target, or use another model",
            )

    def _word_counts(
        self, rows: list[tuple[list[Word], list[int]]], tags: int
    ) -> tuple[NDArray[np.float64], dict[bytes, NDArray[np.float64]]]:
        """Count the tags of each word: (V, K) for ids, and a dict for words spelled in bytes."""
        seen = np.zeros((self.vocabularies.source, tags))
        spelled: dict[bytes, NDArray[np.float64]] = defaultdict(lambda: np.zeros(tags))
        for words, row in rows:
            for word, tag in zip(words, row, strict=True):
                counts = spelled[word.spelling] if word.spelling else seen[word.id]
                counts[tag] += 1
        return seen, spelled

    def _rare_words(
        self, seen: NDArray[np.float64], spelled: Mapping[bytes, NDArray[np.float64]], pieces: list[bytes]
    ) -> Iterator[tuple[bytes, NDArray[np.float64]]]:
        """Yield the rare words and their tag counts."""
        count = seen.sum(1)
        for id in np.flatnonzero((count > 0) & (count <= self.settings.rare)).tolist():
            yield spelling(pieces[id]), seen[id]
        yield from ((word, tags) for word, tags in spelled.items() if tags.sum() <= self.settings.rare)

    def _word_probabilities(self, seen: NDArray[np.float64], endings: Endings, pieces: list[bytes]) -> Tensor:
        """Return P(tag | word) of every id, (V, K), with the ending as a prior worth θ counts."""
        counts = torch.from_numpy(seen)
        prior = torch.stack([endings(spelling(piece)) for piece in pieces])
        prior[UNK] = endings.probabilities[-1]  # neither the word nor its ending is known
        theta = self.settings.theta
        return ((counts + theta * prior) / (counts.sum(1, keepdim=True) + theta)).float()

    def _transitions(self, rows: list[tuple[list[Word], list[int]]], tags: int) -> dict[str, Tensor]:
        """Return the smoothed probabilities of starting with, following with and ending with each tag."""
        bigrams = Counter(pair for _, row in rows for pair in zip([tags, *row], [*row, tags], strict=True))
        counts = torch.full((tags + 1, tags + 1), self.settings.smoothing, dtype=torch.float64)
        counts[-1, -1] = 0.0  # no text is empty
        for (tag, following), count in bigrams.items():
            counts[tag, following] += count
        probs = counts / counts.sum(1, keepdim=True)
        slices = {"start": probs[-1, :-1], "transition": probs[:-1, :-1], "end": probs[:-1, -1]}
        return {name: values.contiguous() for name, values in slices.items()}

    def _metrics(self, data: FitData) -> dict[str, float]:
        """Return the tagging accuracy on the validation pairs, for all words and for unseen words."""
        correct, unseen = list[bool](), list[bool]()
        state_of = self._state_of.tolist()
        for words, tags in _pairs(data.valid, self._byte_of, data.tokenizers, strict=False):
            for word, tag, best in zip(words, tags, self.tag(words), strict=True):
                correct.append(state_of[tag] == best)
                unseen.append(word.id == UNK)
        metrics = {"accuracy": float(np.mean(correct))} if correct else {}
        if any(unseen):
            metrics["accuracy_unseen"] = float(np.mean(np.array(correct)[unseen]))
        return metrics

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        # The recursions are short: they run on the CPU, and only their results are moved to the batch's device.
        state = self._state = {name: value.cpu() for name, value in state.items()}
        reader = StateReader(state, V=self.vocabularies.source)
        self._chain = Chain.of(reader.probabilities("start", "K"), reader.probabilities("transition", "K", "K"))
        self._log_end = reader.probabilities("end", "K").log()
        self._tags = reader.integers("tags", "K", below=self.vocabularies.target)
        byte_of = reader.integers("byte_of", "V", dtype=torch.int16, minimum=-1, below=256)
        self._byte_of: list[int] = byte_of.tolist()
        self._endings = Endings.from_state(reader, self.settings.endings)
        self._log_tags = reader.probabilities("tag_probabilities", "K").log()
        reader.probabilities("word_probabilities", "V", "K", dtype=torch.float32)
        self._state_of = torch.full((self.vocabularies.target,), -1)
        self._state_of[self._tags] = torch.arange(len(self._tags))

    def _log_emission(self, words: list[Word]) -> Tensor:
        """Return log P(tag | word) − log P(tag), (n, K), which is log b up to a constant per word."""
        rows = self._state["word_probabilities"][[word.id for word in words]].double()
        for row, word in zip(rows, words, strict=True):
            if word.spelling:
                row.copy_(self._endings(word.spelling))
        return rows.log() - self._log_tags

    def tag(self, words: list[Word]) -> list[int]:
        """Return the states of the most probable path."""
        density = self._log_emission(words)
        density[-1] += self._log_end
        (packed,) = _pack([density])
        path: list[int] = viterbi(self._chain, packed.frames, packed)[0].tolist()
        return path

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return b_i β_i of every tag of every word (B, n, K), the word positions and the word counts."""
        lengths = (batch.source_lengths - 1).tolist()  # without EOS
        ids = [row[:length] for row, length in zip(batch.source.tolist(), lengths, strict=True)]
        texts = [words_of(row, self._byte_of) for row in ids]
        # A text without words gets a placeholder, which is never used: the recursions need at least one frame.
        densities = [self._log_emission(words or [Word(0, UNK)]) for words in texts]
        scores: dict[int, Tensor] = {}
        for packed in _pack(densities):
            values = packed.frames + backward(self._chain, packed.frames, packed, self._log_end)
            scores.update(zip(packed.order.tolist(), packed.unpack(values), strict=True))
        positions = [
            [*(word.position for word in words), len(row)] for words, row in zip(texts, ids, strict=True)
        ]
        device = batch.source.device
        memory = (
            pad_sequence([scores[i] for i in range(len(texts))], batch_first=True).to(device),
            pad_sequence([torch.tensor(row) for row in positions], batch_first=True).to(device),
            torch.tensor([len(words) for words in texts], device=device),
            torch.zeros(batch.source.shape, device=device),
        )
        return memory, torch.zeros(len(texts), dtype=torch.long, device=device)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """p(y_i | y_{i−1}, x) = a(y_{i−1}, y_i) b_i(y_i) β_i(y_i) / (sum over y_i); after the last tag, EOS."""
        scores, positions, lengths, no_attention = memory
        sentence = torch.arange(len(last), device=last.device) // (len(last) // len(lengths))
        finished = state >= lengths[sentence]
        previous = self._state_of.to(last.device)[last]
        log_start = self._chain.log_start.to(last.device)
        log_prior = torch.where((state == 0).unsqueeze(1), log_start, self._log_transitions(previous))
        word = state.minimum((lengths[sentence] - 1).clamp_min(0))
        tag_log_probs = (log_prior + scores[sentence, word]).log_softmax(1).float()
        log_probs = tag_log_probs.new_full((len(last), self.vocabularies.target), -torch.inf)
        log_probs[:, self._tags.to(last.device)] = tag_log_probs
        log_probs[finished] = -torch.inf
        log_probs[finished, EOS] = 0.0
        position = positions[sentence, state.minimum(lengths[sentence])].unsqueeze(1)
        attention = no_attention[sentence].scatter(1, position, 1.0)  # all of it on the word of this step
        return Step(log_probs, state + 1, attention[:, None, None])  # (R, 1, 1, S)

    def _log_transitions(self, state: Tensor) -> Tensor:
        """Return log a(y_{i−1}, ·), (R, K); constant where the previous token is not a tag."""
        return torch.where((state < 0).unsqueeze(1), 0.0, self._chain.log_transition.to(state.device)[state])

    def trellis(self, text: str, tokenizers: TokenizerPair) -> Trellis:
        """Return the trellis of the tags of a text."""
        words = words_of(tokenizers.source.encode(text), self._byte_of)
        if not words:
            raise SeqloomError("The text has no words to tag.", "give at least one word")
        names = tuple(tokenizers.target.pieces(self._tags.tolist()))
        shown = tuple(_display(word, tokenizers) for word in words)
        return trellis_of(self._chain, self._log_emission(words), shown, names, self._log_end)


def _pack(densities: list[Tensor]) -> list[Packed]:
    """Pack the log-densities of texts, (n, K) each, for the recursions."""
    width = densities[0].shape[1]
    return pack(densities, dtype=torch.float64, device=densities[0].device, max_frames=1 << 16, width=width)


def _display(word: Word, tokenizers: TokenizerPair) -> str:
    if word.spelling:
        return word.spelling.decode("utf-8", errors="replace")
    return tokenizers.source.pieces([word.id])[0]


def _pairs(
    store: TokenStore, byte_of: list[int], tokenizers: TokenizerPair, *, strict: bool = True
) -> Iterator[tuple[list[Word], list[int]]]:
    """Yield words and tags of every pair; raise (`strict`) or skip if their numbers differ."""
    for i in range(len(store)):
        words, tags = words_of(store.source(i).tolist(), byte_of), store.target(i).tolist()
        if len(words) == len(tags):
            yield words, tags
        elif strict:
            line = f"{tokenizers.source.decode(store.source(i).tolist())[:60]!r}"
            raise SeqloomError(
                f"Pair {i + 1} of the training data ({line}) has {len(words)} words and {len(tags)} tags.",
                "hmm needs one tag per word: correct or remove the line, or use another model",
            )
