from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from seqloom.errors import SeqloomError
from seqloom.nn.positions import (
    Alibi,
    AttentionPositions,
    InputPositions,
    Kerple,
    Relative,
    Rotary,
    T5Buckets,
    TagPositions,
    attention_positions,
    distances,
    sinusoids,
)


def test_all_positions_are_different() -> None:
    table = sinusoids(torch.arange(2000), 16)
    distances = torch.cdist(table, table) + 10 * torch.eye(2000)
    assert distances.min() > 0.05


def test_the_shape_follows_the_positions() -> None:
    assert sinusoids(torch.tensor([[0, 3, 4]]), 6).shape == (1, 3, 6)
    assert sinusoids(torch.tensor(0), 4).tolist() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
def test_input_positions_of_a_sequence_and_of_single_steps_agree(name: Any) -> None:
    layer, x = InputPositions(name, 6, max_length=9), torch.randn(2, 9, 6)
    whole = layer(x, torch.arange(9))
    added = whole - x
    assert_close(added[0], added[1])
    assert (added[0, 1:] - added[0, :-1]).abs().amax(-1).min() > 1e-3
    for t in range(9):
        assert_close(layer(x[:, t : t + 1], torch.full((2, 1), t)), whole[:, t : t + 1])


@pytest.mark.parametrize("name", ["none", "relative", "rotary", "alibi", "t5"])
def test_positions_inside_attention_do_not_change_the_input(name: Any) -> None:
    layer, x = InputPositions(name, 6, max_length=1), torch.randn(2, 9, 6)
    assert torch.equal(layer(x, torch.arange(9)), x)
    assert not list(layer.parameters())


def test_sinusoids_have_the_precision_of_the_input() -> None:
    layer, x = InputPositions("sinusoidal", 6, 1), torch.randn(1, 3, 6, dtype=torch.bfloat16)
    assert layer(x, torch.arange(3)).dtype == torch.bfloat16


def test_too_few_learned_positions_are_an_error() -> None:
    layer, x = InputPositions("learned", 6, max_length=4), torch.zeros(2, 1, 6)
    assert torch.equal(layer(x, torch.tensor([[3], [0]]))[0, 0], layer.table.weight[3])  # type: ignore[union-attr]
    with pytest.raises(SeqloomError, match="4 learned positions") as error:
        layer(x, torch.tensor([[0], [4]]))
    assert error.value.hint is not None and "model.max_length" in error.value.hint


def test_distances_broadcast_over_heads() -> None:
    assert distances(torch.arange(2), 3).tolist() == [[0, 1, 2], [-1, 0, 1]]
    rows = distances(torch.tensor([[2], [0]]), 3)
    assert rows.shape == (2, 1, 1, 3)
    assert rows.flatten(1).tolist() == [[-2, -1, 0], [0, 1, 2]]


@pytest.mark.parametrize(
    "name, kind",
    [
        ("none", AttentionPositions),
        ("sinusoidal", AttentionPositions),
        ("learned", AttentionPositions),
        ("relative", Relative),
        ("rotary", Rotary),
        ("alibi", Alibi),
        ("t5", T5Buckets),
        ("kerple", Kerple),
    ],
)
def test_each_name_has_a_class(name: Any, kind: type) -> None:
    assert type(attention_positions(name, 2, 4, 4, causal=True, scaled=True, clip=3)) is kind


def test_without_positions_nothing_is_changed() -> None:
    layer, x = AttentionPositions(), torch.randn(1, 2, 3, 4)
    assert layer.rotate(x, torch.arange(3)) is x
    assert layer.bias(x, torch.arange(3), 3) is None
    assert layer.values(torch.rand(1, 2, 3, 3), torch.arange(3)) is None


def test_leading_tags_share_position_0_and_other_tokens_count_from_1() -> None:
    positions = TagPositions(12, tags=(5, 6, 7))
    source = torch.tensor([[5, 6, 8, 9, 2], [8, 5, 9, 2, 0], [7, 2, 0, 0, 0], [6, 6, 7, 8, 5]])
    expected = [[0, 0, 1, 2, 3], [1, 2, 3, 4, 5], [0, 1, 2, 3, 4], [0, 0, 0, 1, 2]]
    assert positions(source).tolist() == expected
