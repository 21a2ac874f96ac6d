"""Rules against a naive implementation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decode.rules import Rules
from seqloom.types import BOS, EOS, PAD

SIZE = 8
ids = st.integers(4, SIZE - 1)


def left(
    rules: Rules, tokens: Sequence[Sequence[int]], sentences: Sequence[int] | None = None
) -> list[set[int]]:
    """Return the allowed next tokens of each row."""
    log_probs = torch.full((len(tokens), SIZE), -1.0)
    rows = torch.tensor(sentences if sentences is not None else range(len(tokens)))
    rules.apply(log_probs, torch.tensor(tokens, dtype=torch.long).view(len(tokens), -1), lambda: rows)
    return [{v for v in range(SIZE) if row[v] > -math.inf} for row in log_probs.tolist()]


def naive(rules: Rules, said: list[int], sentence: int) -> set[int]:
    if rules.prefixes and len(rules.prefixes[sentence]) > len(said):
        return {rules.prefixes[sentence][len(said)]}
    said = [*rules.context, *said]
    allowed = set(range(SIZE)) - {PAD, BOS}
    if len(said) < rules.min_length:
        allowed -= {EOS}
    if rules.allowed is not None:
        allowed &= {v for v in range(SIZE) if rules.allowed[v]}
    for token in sorted(allowed):
        after = [*said, token]
        if any(after[len(after) - len(f) :] == list(f) for f in rules.forbidden if len(f) <= len(after)):
            allowed.discard(token)
        n = rules.no_repeat
        grams = [tuple(after[i : i + n]) for i in range(len(after) - n + 1)] if n else []
        if n and grams and grams[-1] in grams[:-1]:
            allowed.discard(token)
    return allowed


@given(
    tokens=st.integers(0, 6).flatmap(
        lambda length: st.lists(st.lists(ids, min_size=length, max_size=length), min_size=1, max_size=4)
    ),
    forbidden=st.lists(st.lists(ids, min_size=1, max_size=3), max_size=3),
    prefixes=st.lists(st.lists(ids, max_size=4), min_size=4, max_size=4),
    allowed=st.none() | st.sets(st.integers(2, SIZE - 1)),
    min_length=st.integers(0, 4),
    no_repeat=st.integers(0, 3),
    context=st.lists(ids, max_size=3),
)
@settings(max_examples=200, deadline=None)
def test_the_rules_equal_a_naive_implementation(
    tokens: list[list[int]],
    forbidden: list[list[int]],
    prefixes: list[list[int]],
    allowed: set[int] | None,
    min_length: int,
    no_repeat: int,
    context: list[int],
) -> None:
    mask = None if allowed is None else torch.tensor([v in allowed for v in range(SIZE)])
    rules = Rules(prefixes, context, forbidden, mask, min_length, no_repeat)
    sentences = list(range(len(tokens)))[::-1]
    expected = [naive(rules, said, sentence) for said, sentence in zip(tokens, sentences, strict=True)]
    assert left(rules, tokens, sentences) == expected


def test_without_rules_only_padding_and_start_are_excluded() -> None:
    assert left(Rules(), [[5, 6]]) == [set(range(SIZE)) - {PAD, BOS}]


@pytest.mark.parametrize("n", [1, 2])
def test_a_forced_token_keeps_its_probability(n: int) -> None:
    log_probs = torch.log_softmax(torch.arange(float(SIZE)).repeat(1, 1), dim=1)
    before = log_probs.clone()
    Rules(prefixes=[[5, 5]], no_repeat=n).apply(log_probs, torch.tensor([[5]]), lambda: torch.tensor([0]))
    assert log_probs[0, 5] == before[0, 5]
    assert log_probs.isfinite().sum() == 1
