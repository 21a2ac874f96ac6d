"""Tests of shortlists learned from pairs, and of their coverage."""

from __future__ import annotations

from random import Random

import pytest
import torch

from seqloom.decode.shortlist import Shortlist, special_tokens
from seqloom.errors import SeqloomError
from seqloom.statistical.alignment.shortlist import coverage, make_shortlist
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair

WORDS = {f"w{i}": f"W{i}" for i in range(30)}


def _pairs(count: int) -> list[tuple[str, str]]:
    random = Random(1)
    drawn = [random.sample(list(WORDS), 4) for _ in range(count)]
    return [(" ".join(words), " ".join([*(WORDS[word] for word in words), "."])) for words in drawn]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    text = TextConfig(tokenizer="word", vocab_size=1000, joint=False, byte_fallback=True)
    return TokenizerPair.train(text, lambda: _pairs(200))


def _ids(tokenizers: TokenizerPair, count: int) -> list[tuple[list[int], list[int]]]:
    return [
        (tokenizers.source.encode(source), tokenizers.target.encode(target)) for source, target in _pairs(count)
    ]


def test_shortlist_has_translations_and_frequent_tokens(tokenizers: TokenizerPair) -> None:
    table = make_shortlist(_ids(tokenizers, 200), tokenizers, translations=1, frequent=1)
    (full_stop,) = tokenizers.target.encode(".")
    assert set(table.always.tolist()) == {*special_tokens(tokenizers.target), full_stop}
    for source, target in WORDS.items():
        (word,), (wanted,) = tokenizers.source.encode(source), tokenizers.target.encode(target)
        assert table.translations[word].tolist() == [wanted]
    assert table.fits(tokenizers)


def test_coverage_counts_tokens_targets_and_sizes(tokenizers: TokenizerPair) -> None:
    pairs = _ids(tokenizers, 300)
    table = make_shortlist(pairs[:200], tokenizers, translations=1, frequent=1)
    found = coverage(table, pairs)  # more than one batch
    assert (found.pairs, found.tokens, found.held, found.whole) == (300, 1500, 1500, 300)
    assert found.share == found.as_dict()["coverage"] == 1.0
    assert found.mean_size == len(table.always) + 4
    poorer = Shortlist(torch.tensor(special_tokens(tokenizers.target)), table.translations, table.size)
    found = coverage(poorer, pairs)  # the full stop is on no shortlist
    assert (found.held, found.whole) == (1200, 0)
    assert found.share == 0.8


def test_no_pairs_are_an_error(tokenizers: TokenizerPair) -> None:
    with pytest.raises(SeqloomError, match="no pairs to learn translations from"):
        make_shortlist([], tokenizers, translations=1, frequent=1)
