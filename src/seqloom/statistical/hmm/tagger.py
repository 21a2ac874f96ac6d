"""The hidden Markov tagger: a tag for every word, counted from pairs of equally long source and target.

P(y, x) = Π a(y_{i−1}, y_i) b(y_i, x_i) with an end behind the last tag. b comes from P(tag | word) by Bayes'
rule, b(y, w) ∝ P(y | w) / P(y): what depends on the word alone cancels in P(y | x). So an unseen word is
judged by its ending, and a seen one by its counts with the ending as the prior.
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

_MOST_PROBABILITIES = 1 << 28  # words x tags, and tags x tags: 2 GB


class TaggerSettings(ModelSettings):
    SIZES: ClassVar = {"tiny": {}, "small": {}, "base": {}, "large": {}}

    name: str = "hmm"
    smoothing: float = Field(0.1, gt=0, description="counts added to every transition")
    endings: int = Field(5, ge=0, le=7, description="bytes of a word's end that tell about its tag")
    theta: float = Field(1.0, gt=0, description="counts that the next shorter ending of a word is worth")
    rare: int = Field(10, ge=1, description="a word that occurs no more often tells what unseen words are like")


@register(
    "hmm",
    summary="Hidden Markov tagger: a tag for every word, counted",
    paper="Church 1988; Brants 2000, arXiv:cs/0003055",
    settings=TaggerSettings,
    fitted=True,
    defaults={"text.tokenizer": "word", "text.vocab_size": 1_000_000, "text.joint": False},
)
class Tagger(StepModel):
    """P(y_i | y_{i−1}, x) exactly, so that log P of a search is that of the whole path given the text."""

    def __init__(self, settings: TaggerSettings, vocabularies: Vocabularies) -> None:
        if vocabularies.features:
            raise SeqloomError(
                "The model hmm tags words, but the source is feature frames.", "use hmm-classifier for frames"
            )
        self.settings, self.vocabularies = settings, vocabularies

    def fit(self, lesson: FitData) -> dict[str, float]:
        source = lesson.tokenizers.source
        byte_of = byte_table(source)
        pairs = list(_pairs(lesson.train, byte_of.tolist(), lesson.tokenizers))
        tags = torch.tensor(sorted({tag for _, row in pairs for tag in row}))
        self._refuse_too_large(len(tags))
        state_of = {tag: state for state, tag in enumerate(tags.tolist())}
        rows = [(words, [state_of[tag] for tag in row]) for words, row in pairs]
        seen, spelled = self._word_counts(rows, len(tags))
        state = {"tags": tags, "byte_of": byte_of, **self._transitions(rows, len(tags))}
        everything = seen.sum(0) + sum(spelled.values())
        everything = everything / everything.sum()
        endings = Endings.learned(
            self._rare(seen, spelled, source.bytes_of(range(len(seen)))),
            everything,
            longest=self.settings.endings,
            theta=self.settings.theta,
        )
        state |= {"tag_probabilities": torch.from_numpy(everything), **endings.state_dict()}
        state["word_probabilities"] = self._word_probabilities(seen, endings, source.bytes_of(range(len(seen))))
        self.load_state_dict(state)
        return self._figures(lesson)

    def _refuse_too_large(self, tags: int) -> None:
        if tags * max(tags, self.vocabularies.source) > _MOST_PROBABILITIES:
            raise SeqloomError(
                f"The targets have {tags:,} different tokens: too many for the tags of a hidden Markov model.",
                "give pairs whose target is a tag per word, or use another model",
            )

    def _word_counts(
        self, rows: list[tuple[list[Word], list[int]]], tags: int
    ) -> tuple[NDArray[np.float64], dict[bytes, NDArray[np.float64]]]:
        """How often each word has each tag: of ids (V, K), and of words that are spelled."""
        seen = np.zeros((self.vocabularies.source, tags))
        spelled: dict[bytes, NDArray[np.float64]] = defaultdict(lambda: np.zeros(tags))
        for words, row in rows:
            for word, tag in zip(words, row, strict=True):
                counts = spelled[word.spelling] if word.spelling else seen[word.id]
                counts[tag] += 1
        return seen, spelled

    def _rare(
        self, seen: NDArray[np.float64], spelled: Mapping[bytes, NDArray[np.float64]], pieces: list[bytes]
    ) -> Iterator[tuple[bytes, NDArray[np.float64]]]:
        """The words that occur seldom, and their tags."""
        count = seen.sum(1)
        for id in np.flatnonzero((count > 0) & (count <= self.settings.rare)).tolist():
            yield spelling(pieces[id]), seen[id]
        yield from ((word, tags) for word, tags in spelled.items() if tags.sum() <= self.settings.rare)

    def _word_probabilities(self, seen: NDArray[np.float64], endings: Endings, pieces: list[bytes]) -> Tensor:
        """(V, K): P(tag | word) of every id, its ending being worth θ counts."""
        counts = torch.from_numpy(seen)
        prior = torch.stack([endings(spelling(piece)) for piece in pieces])
        prior[UNK] = endings.probabilities[-1]  # a word of which nothing is known
        theta = self.settings.theta
        return ((counts + theta * prior) / (counts.sum(1, keepdim=True) + theta)).float()

    def _transitions(self, rows: list[tuple[list[Word], list[int]]], tags: int) -> dict[str, Tensor]:
        """How tags begin, follow one another, and end a text, each count a little more."""
        follow = Counter(pair for _, row in rows for pair in zip([tags, *row], [*row, tags], strict=True))
        counts = torch.full((tags + 1, tags + 1), self.settings.smoothing, dtype=torch.float64)
        counts[-1, -1] = 0.0  # no text is empty
        for (before, after), count in follow.items():
            counts[before, after] += count
        chances = counts / counts.sum(1, keepdim=True)
        parts = {"start": chances[-1, :-1], "transition": chances[:-1, :-1], "end": chances[:-1, -1]}
        return {name: part.contiguous() for name, part in parts.items()}

    def _figures(self, lesson: FitData) -> dict[str, float]:
        """The share of right tags on the validation pairs: of all words, and of those not seen in training."""
        right, unseen = list[bool](), list[bool]()
        state_of = self._state_of.tolist()
        for words, tags in _pairs(lesson.valid, self._byte_of, lesson.tokenizers, refuse=False):
            for word, tag, best in zip(words, tags, self.tag(words), strict=True):
                right.append(state_of[tag] == best)
                unseen.append(word.id == UNK)
        figures = {"accuracy": float(np.mean(right))} if right else {}
        if any(unseen):
            figures["accuracy_unseen"] = float(np.mean(np.array(right)[unseen]))
        return figures

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        # The recursions are short: they run on the processor, and only their results go to the batch's device.
        state = self._state = {name: value.cpu() for name, value in state.items()}
        given = StateReader(state, V=self.vocabularies.source)
        self._chain = Chain.of(given.probabilities("start", "K"), given.probabilities("transition", "K", "K"))
        self._log_end = given.probabilities("end", "K").log()
        self._tags = given.integers("tags", "K", below=self.vocabularies.target)
        byte_of = given.integers("byte_of", "V", dtype=torch.int16, least=-1, below=256)
        self._byte_of: list[int] = byte_of.tolist()
        self._endings = Endings.of(given, self.settings.endings)
        self._log_tags = given.probabilities("tag_probabilities", "K").log()
        given.probabilities("word_probabilities", "V", "K", dtype=torch.float32)
        self._state_of = torch.full((self.vocabularies.target,), -1)
        self._state_of[self._tags] = torch.arange(len(self._tags))

    def _log_emission(self, words: list[Word]) -> Tensor:
        """(n, K): log P(tag | word) − log P(tag), which is log b up to what depends on the word alone."""
        rows = self._state["word_probabilities"][[word.id for word in words]].double()
        for row, word in zip(rows, words, strict=True):
            if word.spelling:
                row.copy_(self._endings(word.spelling))
        return rows.log() - self._log_tags

    def tag(self, words: list[Word]) -> list[int]:
        """The states of the most probable path."""
        density = self._log_emission(words)
        density[-1] += self._log_end
        (packed,) = _pack([density])
        path: list[int] = viterbi(self._chain, packed.frames, packed)[0].tolist()
        return path

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """What every tag of every word is worth, b_i β_i (B, n, K); the places of the words; their number."""
        lengths = (batch.source_lengths - 1).tolist()  # without EOS
        ids = [row[:length] for row, length in zip(batch.source.tolist(), lengths, strict=True)]
        texts = [words_of(row, self._byte_of) for row in ids]
        # A text without words has one that nobody asks for: recursions need at least one frame.
        densities = [self._log_emission(words or [Word(0, UNK)]) for words in texts]
        worth: dict[int, Tensor] = {}
        for packed in _pack(densities):
            values = packed.frames + backward(self._chain, packed.frames, packed, self._log_end)
            worth.update(zip(packed.order.tolist(), packed.unpack(values), strict=True))
        places = [[*(word.place for word in words), len(row)] for words, row in zip(texts, ids, strict=True)]
        device = batch.source.device
        memory = (
            pad_sequence([worth[i] for i in range(len(texts))], batch_first=True).to(device),
            pad_sequence([torch.tensor(row) for row in places], batch_first=True).to(device),
            torch.tensor([len(words) for words in texts], device=device),
            torch.zeros(batch.source.shape, device=device),
        )
        return memory, torch.zeros(len(texts), dtype=torch.long, device=device)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """p(y_i | y_{i−1}, x) = a(y_{i−1}, y_i) b_i(y_i) β_i(y_i) / (sum over y_i); after the last, the end."""
        worth, places, lengths, nowhere = memory
        sentence = torch.arange(len(last), device=last.device) // (len(last) // len(lengths))
        over = state >= lengths[sentence]
        before = self._state_of.to(last.device)[last]
        chain = self._chain
        into = torch.where((state == 0).unsqueeze(1), chain.log_start.to(last.device), self._from(before))
        at = state.minimum((lengths[sentence] - 1).clamp_min(0))
        chances = (into + worth[sentence, at]).log_softmax(1).float()
        log_probs = chances.new_full((len(last), self.vocabularies.target), -torch.inf)
        log_probs[:, self._tags.to(last.device)] = chances
        log_probs[over] = -torch.inf
        log_probs[over, EOS] = 0.0
        place = places[sentence, state.minimum(lengths[sentence])].unsqueeze(1)
        attention = nowhere[sentence].scatter(1, place, 1.0)  # all of it on the word of this step
        return Step(log_probs, state + 1, attention[:, None, None])  # (R, 1, 1, S)

    def _from(self, state: Tensor) -> Tensor:
        """(R, K): log a(y_{i−1}, ·); after what is no tag, all are alike."""
        return torch.where((state < 0).unsqueeze(1), 0.0, self._chain.log_transition.to(state.device)[state])

    def trellis(self, text: str, tokenizers: TokenizerPair) -> Trellis:
        """The tags of a text."""
        words = words_of(tokenizers.source.encode(text), self._byte_of)
        if not words:
            raise SeqloomError("There is nothing to tag: the text has no words.", "give some words")
        names = tuple(tokenizers.target.pieces(self._tags.tolist()))
        shown = tuple(_shown(word, tokenizers) for word in words)
        return trellis_of(self._chain, self._log_emission(words), shown, names, self._log_end)


def _pack(densities: list[Tensor]) -> list[Packed]:
    """The log-densities of texts, (n, K) each, as the recursions take them."""
    width = densities[0].shape[1]
    return pack(densities, dtype=torch.float64, device=densities[0].device, most=1 << 16, width=width)


def _shown(word: Word, tokenizers: TokenizerPair) -> str:
    if word.spelling:
        return word.spelling.decode("utf-8", errors="replace")
    return tokenizers.source.pieces([word.id])[0]


def _pairs(
    store: TokenStore, byte_of: list[int], tokenizers: TokenizerPair, *, refuse: bool = True
) -> Iterator[tuple[list[Word], list[int]]]:
    """The words and the tags of every pair; one that has not as many of both is refused, or left out."""
    for i in range(len(store)):
        words, tags = words_of(store.source(i).tolist(), byte_of), store.target(i).tolist()
        if len(words) == len(tags):
            yield words, tags
        elif refuse:
            line = f"{tokenizers.source.decode(store.source(i).tolist())[:60]!r}"
            raise SeqloomError(
                f"Pair {i + 1} of the training data ({line}) has {len(words)} words and {len(tags)} tags.",
                "hmm needs a tag for every word: mend or remove the line, or use another model",
            )
