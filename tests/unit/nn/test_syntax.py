from __future__ import annotations

import torch
from torch.testing import assert_close

from seqloom.nn.syntax import TreeInput, TreeRelative, tree_positions


def test_a_small_tree_by_hand() -> None:
    """Bush held a talk: the root is held, with Bush and talk as children; `a` depends on talk, two tokens."""
    heads = torch.tensor([[2, 0, 4, 2, -1, 0]])  # the last one is the end of the sentence
    depth, relative = tree_positions(heads)
    assert depth.tolist() == [[1, 0, 2, 1, 1, 0]]
    assert relative[0].tolist() == [
        [0, 1, -3, -2, -2, -1],
        [-1, 0, -2, -1, -1, 0],
        [3, 2, 0, 1, 1, -2],
        [2, 1, -1, 0, 0, -1],
        [2, 1, -1, 0, 0, -1],
        [1, 0, 2, 1, 1, 0],
    ]


def test_padding_changes_nothing() -> None:
    short = torch.tensor([[2, 0, -1, 2, 0]])
    long = torch.tensor([[2, 0, -1, 2, 0, 0, 0, 0], [8, 1, 2, 3, 4, 5, 6, 0]])
    alone, among = tree_positions(short), tree_positions(long)
    assert torch.equal(among.depth[0, :5], alone.depth[0])
    assert torch.equal(among.relative[0, :5, :5], alone.relative[0])
    assert among.depth[1].tolist() == [1, 2, 3, 4, 5, 6, 7, 0]


def test_one_word_and_no_word() -> None:
    assert tree_positions(torch.tensor([[0]])).relative.tolist() == [[[0]]]
    assert tree_positions(torch.zeros(2, 0, dtype=torch.long)).depth.shape == (2, 0)


def test_relative_positions_are_antisymmetric() -> None:
    relative = tree_positions(torch.tensor([[3, 1, 0, 6, 4, 3, 0], [0, 0, 2, 3, -1, 5, 0]])).relative
    assert torch.equal(relative, -relative.mT)


def test_input_positions_depend_on_position_and_depth() -> None:
    layer, x = TreeInput(8), torch.zeros(1, 3, 8)
    added = layer(x, torch.arange(3), torch.tensor([[1, 0, 1]]))[0]
    other = layer(x, torch.arange(3), torch.tensor([[2, 0, 1]]))[0]
    assert_close(added[1:], other[1:])
    assert (added[0] - other[0]).abs().max() > 1e-3  # another depth
    assert (added[0] - added[2]).abs().max() > 1e-3  # another position


def test_all_vectors_are_trained() -> None:
    layer = TreeRelative(4, 3, clip=1)
    at = tree_positions(torch.tensor([[2, 0, 2]])).relative
    total = layer.bias(torch.ones(1, 2, 3, 4), at, 3).sum() + layer.values(torch.ones(1, 2, 3, 3), at).sum()
    gradients = torch.autograd.grad(total, list(layer.parameters()))
    assert len(gradients) == 4 and all(gradient.any() for gradient in gradients)
