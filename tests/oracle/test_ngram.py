"""The n-gram model against a loop over the textbook equations and against another ARPA reader."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import arpa
import numpy as np
import pytest

from seqloom.data.batching import collate_ids
from seqloom.decode.config import SamplingConfig
from seqloom.decode.sampling import sample
from seqloom.statistical.ngram.arpa import write_arpa
from seqloom.statistical.ngram.model import NgramModel, NgramSettings
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.types import BOS, EOS, PAD, UNK, Vocabularies

WORDS = 14  # in addition to the four special ids
V = WORDS + 4
Gram = tuple[int, ...]


def texts(seed: int, count: int = 120) -> list[list[int]]:
    """Return rows with frequent words, regular successions and one word that never occurs."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        row = [4 + min(int(draw.expovariate(0.5)), WORDS - 2)]
        while draw.random() < 0.85:
            row.append(row[-1] if draw.random() < 0.3 else 4 + min(int(draw.expovariate(0.4)), WORDS - 2))
        rows.append([UNK if draw.random() < 0.02 else word for word in row])
    return [*rows, []]


class Textbook:
    """Interpolated modified Kneser-Ney (Chen & Goodman 1999), one n-gram at a time."""

    def __init__(self, rows: Sequence[Sequence[int]], order: int, prune: Sequence[int]) -> None:
        self.order = order
        self.raw = [Counter[Gram]() for _ in range(order + 1)]
        for row in rows:
            words = (BOS, *row, EOS)
            for n in range(1, order + 1):
                self.raw[n].update(words[i : i + n] for i in range(len(words) - n + 1))
        del self.raw[1][BOS,]
        limits = [0, *prune[:order], *[prune[-1] if prune else 0] * (order - len(prune))]
        self.kept = [
            {g for g, c in raw.items() if c > limit} for raw, limit in zip(self.raw, limits, strict=True)
        ]
        self.counts = [self._adjusted(n) for n in range(order + 1)]
        self.discounts = [self._discounts(counts) for counts in self.counts]

    def _adjusted(self, n: int) -> dict[Gram, int]:
        if n in (0, self.order):
            return dict(self.raw[n])
        befores = {gram: set[int]() for gram in self.raw[n]}
        for gram in self.raw[n + 1]:
            if gram[1:] in befores:
                befores[gram[1:]].add(gram[0])
        return {g: self.raw[n][g] if g[0] == BOS else len(befores[g]) for g in befores}

    @staticmethod
    def _discounts(counts: dict[Gram, int]) -> list[float]:
        t = [sum(count == k for count in counts.values()) for k in range(5)]
        if not (t[1] and t[2] and t[3]):
            return [0, 0.5, 1.0, 1.5]
        y = t[1] / (t[1] + 2 * t[2])
        found = [0, *(k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3))]
        return found if min(found[1:]) > 0 else [0, 0.5, 1.0, 1.5]

    def prob(self, context: Gram, word: int) -> float:
        context = context[max(0, len(context) - self.order + 1) :]
        n = len(context) + 1
        followers = {g: c for g, c in self.counts[n].items() if g[:-1] == context}
        total = sum(followers.values())
        if not context:
            lower = 0.0 if word in (PAD, BOS) else 1 / (V - 2)
        else:
            lower = self.prob(context[1:], word)
        if not total:
            return lower
        off = {g: self.discounts[n][min(c, 3)] for g, c in followers.items()}
        gamma = sum(off[g] if g in self.kept[n] else c for g, c in followers.items()) / total
        gram = (*context, word)
        own = (followers[gram] - off[gram]) / total if gram in self.kept[n] else 0.0
        return own + gamma * lower


def contexts(rows: Sequence[Sequence[int]], longest: int) -> list[Gram]:
    """Return seen and unseen contexts, from the empty to the longest."""
    seen = {(BOS, *row)[i : i + n] for row in rows for n in range(longest + 1) for i in range(len(row) + 2 - n)}
    draw = random.Random(1)
    picked = draw.sample(sorted(seen), min(60, len(seen)))
    return [(), (BOS,), (V - 1,), (4, 4, 4, 4, 4), (BOS, V - 1), (V - 1, 5, 4), *picked]


@pytest.mark.parametrize("prune", [(), (0, 0, 1), (0, 1, 2)])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_match_the_textbook(order: int, prune: tuple[int, ...]) -> None:
    rows = texts(order)
    model, book = Ngrams.estimate(rows, order=order, vocabulary=V, prune=prune), Textbook(rows, order, prune)
    if order > 1 and not prune:
        assert any(found != [0, 0.5, 1.0, 1.5] for found in book.discounts[1:])
    assert [len(level) for level in model.levels[1:]] == [len(kept) for kept in book.kept[2:]]
    asked = contexts(rows, order)
    expected = np.array([[book.prob(context, word) for word in range(V)] for context in asked])
    np.testing.assert_allclose(np.exp(model.log_probs(asked)), expected, rtol=3e-6)
    np.testing.assert_allclose(expected.sum(axis=1), 1, rtol=1e-9)  # the reference sums to 1


def test_probabilities_match_another_arpa_reader(tmp_path: Path) -> None:
    rows, held_out = texts(1, 300), texts(2, 50)
    model = Ngrams.estimate(rows, order=4, vocabulary=V, prune=(0, 0, 1))
    names = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(WORDS))]
    write_arpa(tmp_path / "x.arpa", model.levels, names)
    (theirs,) = arpa.loadf(str(tmp_path / "x.arpa"))
    ours = other = 0.0
    for row in held_out:
        words = [names[word] for word in (BOS, *row, EOS)]
        other += sum(theirs.log_p_raw(tuple(words[max(0, i - 3) : i + 1])) for i in range(1, len(words)))
        ours += sum(model.score(row))
    tokens = sum(len(row) + 1 for row in held_out)
    assert math.exp(-ours / tokens) == pytest.approx(10 ** (-other / tokens), rel=1e-7)


def test_samples_follow_the_distribution() -> None:
    rows = [[4, 5], [4, 5], [4, 6], [5], [4, 4, 5], [6, 5], [4, 5, 6]]
    model = NgramModel(NgramSettings(order=3), Vocabularies(7, 7, True))
    model.load_state_dict(Ngrams.estimate(rows, order=3, vocabulary=7).to_tensors())
    count = 4000
    (drawn,) = sample(
        model,
        collate_ids([[]], None, [0]),
        options=SamplingConfig(samples=count, seed=3),
        max_lengths=[3],
        prefixes=[[]],
    )
    found = Counter(tuple(one.tokens) for one in drawn)
    whole = (words for n in range(3) for words in product(range(UNK, 7), repeat=n))
    chances = {words: math.exp(sum(model.ngrams.score(words))) for words in whole}
    # Chi-squared test over the frequent outcomes; all others are pooled.
    usual = {words: p for words, p in chances.items() if p * count > 20}
    expected = np.array([*usual.values(), 1 - sum(usual.values())]) * count
    seen = np.array([*(found[words] for words in usual), count - sum(found[words] for words in usual)])
    squares = ((seen - expected) ** 2 / expected).sum()
    degrees = len(expected) - 1
    assert len(usual) > 5
    assert squares < degrees + 4 * math.sqrt(2 * degrees)
