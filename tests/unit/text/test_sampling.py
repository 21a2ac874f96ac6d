"""Sampled segmentations: the same text, the published distributions, and reproducibility."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache
from threading import Thread
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.marian import as_marian
from seqloom.text.sampling import SubwordSampler
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK

SYLLABLES = ("lo", "wer", "ne", "st", "wi", "de", "ing", "walk", "ed", "er")
CORPUS = [f"{a}{b} {b}{c}{a} {c}" for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES[:4]]
Segmentation = tuple[str, ...]


@cache
def _tokenizer(kind: Any, *, byte_fallback: bool = True) -> Tokenizer:
    return Tokenizer.train(
        CORPUS,
        kind=kind,
        vocab_size=330 if byte_fallback else 70,
        normalize="nfc",
        lowercase=False,
        collapse_spaces=True,
        byte_fallback=byte_fallback,
        tags=("<V>", "<PST>"),
    )


def _sampler(tokenizer: Tokenizer, longest: int = 1000, **options: Any) -> SubwordSampler:
    config = TextConfig.model_validate(
        {
            "tokenizer": "unigram",
            "sampling": "source",
            **{f"sampling_{key}": value for key, value in options.items()},
        }
    )
    return SubwordSampler(tokenizer, config, longest)


def _frequencies(
    tokenizer: Tokenizer, text: str, count: int = 20_000, **options: Any
) -> dict[Segmentation, float]:
    ids = tokenizer.encode(text)
    drawn = Counter(tuple(tokenizer.pieces(row)) for row in _sampler(tokenizer, **options)([ids] * count, 1))
    return {pieces: n / count for pieces, n in drawn.items()}


def _segmentations(text: str, pieces: dict[str, float]) -> dict[Segmentation, float]:
    """Return all segmentations into pieces with their log-probabilities."""
    if not text:
        return {(): 0.0}
    return {
        (text[:end], *rest): pieces[text[:end]] + score
        for end in range(1, len(text) + 1)
        if text[:end] in pieces
        for rest, score in _segmentations(text[end:], pieces).items()
    }


def _scores(tokenizer: Tokenizer) -> dict[str, float]:
    """Return the score of each piece, without special, byte and tag pieces."""
    return {
        name: tokenizer._processor.get_score(id) for id, name in enumerate(tokenizer.names) if "<" not in name
    }


def _assert_equal(drawn: dict[Segmentation, float], expected: dict[Segmentation, float]) -> None:
    assert len(expected) > 3
    assert drawn.keys() <= expected.keys()
    for segmentation, p in expected.items():
        assert drawn.get(segmentation, 0.0) == pytest.approx(p, abs=0.015), segmentation


# Distributions


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("nbest", [-1, 4])
def test_unigram_draws_segmentations_by_their_probability_to_the_power_of_alpha(
    alpha: float, nbest: int
) -> None:
    tokenizer = _tokenizer("unigram")
    scores = _segmentations("▁lower", _scores(tokenizer))
    best = sorted(scores, key=scores.__getitem__, reverse=True)[: nbest if nbest > 0 else None]
    weights = {pieces: math.exp(alpha * scores[pieces]) for pieces in best}
    expected = {pieces: weight / sum(weights.values()) for pieces, weight in weights.items()}
    _assert_equal(_frequencies(tokenizer, "lower", alpha=alpha, nbest=nbest), expected)


def _with_dropped_merges(
    symbols: tuple[tuple[int, str], ...],
    pending: frozenset[tuple[int, str, str]],
    scores: dict[str, float],
    p: float,
) -> Counter[Segmentation]:
    """Return the distribution of segmentations if each merge is left out with probability p.

    `symbols` are pieces with their first character; `pending` are pairs of neighbours that were not tried yet.
    """
    neighbours = list(itertools.pairwise(symbols))
    open_pairs = [(i, a, b) for (i, a), (_, b) in neighbours if (i, a, b) in pending and a + b in scores]
    if not open_pairs:
        return Counter({tuple(piece for _, piece in symbols): 1.0})  # type: ignore[dict-item]
    chosen = max(open_pairs, key=lambda pair: (scores[pair[1] + pair[2]], -pair[0]))
    found: Counter[Segmentation] = Counter()
    at, left, right = chosen
    place = symbols.index((at, left))
    merged = (*symbols[:place], (at, left + right), *symbols[place + 2 :])
    new = {(i, a, b) for (i, a), (_, b) in itertools.pairwise(merged) if left + right in (a, b)}
    for outcome, share, waiting in (
        (symbols, p, pending - {chosen}),
        (merged, 1 - p, pending - {chosen} | new),
    ):
        for pieces, probability in _with_dropped_merges(outcome, waiting, scores, p).items():
            found[pieces] += share * probability  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("alpha", [0.1, 0.4])
def test_bpe_leaves_out_merges_with_probability_alpha(alpha: float) -> None:
    tokenizer = _tokenizer("bpe")
    symbols = tuple(enumerate("▁lower"))
    pairs = frozenset((i, a, b) for (i, a), (_, b) in itertools.pairwise(symbols))
    expected = _with_dropped_merges(symbols, pairs, _scores(tokenizer), alpha)
    assert sum(expected.values()) == pytest.approx(1)
    _assert_equal(_frequencies(tokenizer, "lower", alpha=alpha), dict(expected))


def test_bpe_without_any_merge_is_characters() -> None:
    assert set(_frequencies(_tokenizer("bpe"), "lower", 10, alpha=1.0)) == {tuple("▁lower")}


# Text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize(
    "text",
    ["lower", "<V> <PST> lower", "lower  walking", "日本 lower €", "a [MASK] b", "</s> <0x41>", "▁ ▁lower", ""],
)
def test_the_text_stays_the_same(kind: str, text: str) -> None:
    tokenizer = _tokenizer(kind)
    ids = tokenizer.encode(text)
    rows = _sampler(tokenizer, alpha=0.3, nbest=-1)([ids] * 200, 1)
    assert {tokenizer.decode(row) for row in rows} == {tokenizer.normalize(text)}


def test_a_tag_is_never_split() -> None:
    tokenizer = _tokenizer("unigram")
    ids = tokenizer.encode("<V> <PST> lower <V>")
    rows = _sampler(tokenizer, alpha=0.01, nbest=-1)([ids] * 3000, 1)
    tag, past = tokenizer.tags
    assert all(row[:2] == [tag, past] and row[-1] == tag for row in rows)
    assert len(set(map(tuple, rows))) > 5


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_an_unknown_character_stays_unknown(kind: str) -> None:
    tokenizer = _tokenizer(kind, byte_fallback=False)
    ids = tokenizer.encode("lower€ lower")
    rows = _sampler(tokenizer, alpha=0.5)([ids] * 50, 1)
    assert all(row.count(UNK) == 1 for row in rows)
    assert len(set(map(tuple, rows))) > 3


def test_a_text_truncated_inside_a_character_stays_as_it_is() -> None:
    tokenizer = _tokenizer("bpe")
    ids = tokenizer.encode("lower日")[:-1]
    assert _sampler(tokenizer, alpha=0.9)([ids] * 5, 1) == [ids] * 5


def test_a_text_that_would_become_too_long_stays_as_it_is() -> None:
    tokenizer = _tokenizer("bpe")
    ids = tokenizer.encode("lower walking")
    rows = _sampler(tokenizer, longest=len(ids) + 3, alpha=0.5)([ids] * 200, 1)
    assert rows.count(ids) > 20
    assert len(ids) < max(map(len, rows)) <= len(ids) + 3


# Reproducibility


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_seed_determines_the_segmentations_in_every_thread(kind: str) -> None:
    tokenizer = _tokenizer(kind)
    rows, sampler = [tokenizer.encode(line) for line in CORPUS], _sampler(tokenizer, alpha=0.3)
    found = []
    for seed in (1, 2, 1):
        found.append(sampler(rows, seed))
    worker = Thread(target=lambda: found.append(sampler(rows, 1)))
    worker.start()
    worker.join()
    assert found[0] == found[2] == found[3] != found[1]


# Errors


@pytest.mark.parametrize("kind", ["char", "word"])
def test_a_tokenizer_without_subwords_is_refused(kind: str) -> None:
    with pytest.raises(SeqloomError, match=rf"text.sampling=source .* {kind}"):
        _sampler(_tokenizer(kind))


def test_an_imported_tokenizer_is_refused() -> None:
    with pytest.raises(SeqloomError, match=r"text.sampling=source .* marian"):
        _sampler(as_marian(_tokenizer("unigram")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "char", "sampling": "source"}, "source is char"),
        ({"target_tokenizer": "word", "sampling": "both"}, "target is word"),
        ({"tokenizer": "frames", "sampling": "both"}, "source is frames"),
        ({"tokenizer": "bpe", "sampling": "both", "sampling_alpha": 1.5}, "sampling_alpha=1.5"),
        ({"sampling_nbest": 1}, "sampling_nbest=1"),
        ({"sampling_nbest": -2}, "sampling_nbest"),
        ({"sampling": "input"}, "text.sampling"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        TextConfig.checked(options, "text")


def test_a_side_with_subwords_can_be_sampled_alone() -> None:
    config = TextConfig.checked({"tokenizer": "char", "target_tokenizer": "bpe", "sampling": "target"}, "text")
    assert config.sampled_sides == ("target",)
    assert TextConfig.checked({"sampling": "both"}, "text").sampled_sides == ("source", "target")
