"""Structural positions against walks from word to word, and the attention over them against loops."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from seqloom.nn.syntax import TreeInput, TreeRelative, tree_positions

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-9}


def _tree(words: int, draw: random.Random) -> list[int]:
    """Heads from 1, 0 = a root: every word but the first of a shuffled order hangs on one before it."""
    order = list(range(1, words + 1))
    draw.shuffle(order)
    heads = dict.fromkeys(order, 0)
    for place, word in enumerate(order[1:], 1):
        if draw.random() < 0.95:  # else one more root
            heads[word] = draw.choice(order[:place])
    return [heads[word] for word in range(1, words + 1)]


def _tokens(heads: list[int], sizes: list[int]) -> tuple[list[int], list[int]]:
    """The heads of tokens and the word of each, for words of so many tokens."""
    first = [1 + sum(sizes[:word]) for word in range(len(sizes))]
    tokens, words = [], []
    for word, (head, size) in enumerate(zip(heads, sizes, strict=True), 1):
        tokens += [first[head - 1] if head else 0] + [-1] * (size - 1)
        words += [word] * size
    return tokens, words


def _path(word: int, heads: list[int]) -> list[int]:
    """The word and all that is above it."""
    path = [word]
    while heads[path[-1] - 1]:
        path.append(heads[path[-1] - 1])
    return path


def _relative(i: int, j: int, words: list[int], heads: list[int]) -> int:
    one, two = _path(words[i], heads), _path(words[j], heads)
    if one[0] in two or two[0] in one:
        return len(one) - len(two)
    total = len(one) - 1 + len(two) - 1
    return total if i > j else -total


def test_positions_are_those_of_a_walk_through_each_tree() -> None:
    draw = random.Random(1)
    trees = [_tree(words, draw) for words in [1, 2, 2, *(draw.randint(1, 25) for _ in range(37))]]
    sizes = [[draw.choice([1, 1, 2, 4]) for _ in heads] for heads in trees]
    tokens = [_tokens(heads, size) for heads, size in zip(trees, sizes, strict=True)]
    width = max(len(own) for own, _ in tokens) + 3
    batch = torch.zeros(len(trees), width, dtype=torch.long)
    for row, (own, _) in zip(batch, tokens, strict=True):
        row[: len(own)] = torch.tensor(own)
    depth, relative = tree_positions(batch)
    assert depth.shape == (40, width) and relative.shape == (40, width, width)
    for b, (heads, (own, words)) in enumerate(zip(trees, tokens, strict=True)):
        assert depth[b, : len(own)].tolist() == [len(_path(word, heads)) - 1 for word in words]
        assert not depth[b, len(own) :].any()
        expected = [[_relative(i, j, words, heads) for j in range(len(own))] for i in range(len(own))]
        assert relative[b, : len(own), : len(own)].tolist() == expected


@pytest.mark.parametrize("scaled", [True, False])
def test_attention_joins_both_kinds_of_distance_to_keys_and_values(scaled: bool) -> None:
    """e_ij = q_i (k_j + a_(j-i) + a'_r(i,j)) / √d, z_i = Σ α_ij (v_j + b_(j-i) + b'_r(i,j)); here k = v = 0."""
    torch.manual_seed(1)
    clip, qk, v, heads = 2, 4, 3, 2
    layer = TreeRelative(qk, v, clip=clip, scaled=scaled).double()
    queries, weights = torch.randn(2, heads, 6, qk).double(), torch.rand(2, heads, 6, 6).double()
    at = tree_positions(torch.tensor([[2, 3, 4, 0, 4, 0], [0, -1, 1, 3, 0, 0]])).relative
    assert at.abs().max() > clip
    bias, values = layer.bias(queries, at, 6), layer.values(weights, at)
    tables = [part.detach().numpy() for part in layer.linear.parameters()]
    tables += [part.detach().numpy() for part in layer.tree.parameters()]
    linear_keys, linear_values, tree_keys, tree_values = tables
    expected = np.zeros((2, heads, 6, v))
    for b, h, i, j in np.ndindex(2, heads, 6, 6):
        place = [max(-clip, min(clip, n)) + clip for n in (j - i, int(at[b, i, j]))]
        product = queries[b, h, i].numpy() @ (linear_keys[place[0]] + tree_keys[place[1]])
        assert bias[b, h, i, j].item() == pytest.approx(product / (math.sqrt(qk) if scaled else 1.0), abs=1e-9)
        expected[b, h, i] += weights[b, h, i, j].item() * (linear_values[place[0]] + tree_values[place[1]])
    assert_close(values, torch.from_numpy(expected), **EXACT)


def test_the_input_mixes_place_and_depth() -> None:
    torch.manual_seed(1)
    width = 6
    layer, x = TreeInput(width).double(), torch.randn(2, 3, width).double()
    depth = torch.tensor([[1, 0, 7], [0, 2, 3]])
    matrix, offset = (part.detach().numpy() for part in layer.mix.parameters())
    out = layer(x, torch.arange(3).double(), depth.double())

    def encoded(n: int) -> list[float]:
        angles = [n / 10_000 ** (2 * i / width) for i in range(width // 2)]
        return [wave for angle in angles for wave in (math.sin(angle), math.cos(angle))]

    for b, s in np.ndindex(2, 3):
        mixed = matrix @ np.array([*encoded(s), *encoded(int(depth[b, s]))]) + offset
        assert out[b, s].tolist() == pytest.approx(x[b, s].numpy() + np.tanh(mixed), abs=1e-6)
