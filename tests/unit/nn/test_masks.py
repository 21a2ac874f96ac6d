from __future__ import annotations

import math

import torch

from seqloom.nn.masks import causal_mask, combine_mask_and_bias, combine_masks, padding_mask, prefix_mask

CPU = torch.device("cpu")
YES_NO = torch.tensor([[True, False], [True, True]])


def test_padding_is_hidden_from_every_head_and_query() -> None:
    mask = padding_mask(YES_NO)
    assert mask.shape == (2, 1, 1, 2)
    assert mask.expand(2, 3, 4, 2)[0, 2, 3].tolist() == [True, False]


def test_a_query_attends_to_itself_and_earlier_keys() -> None:
    assert causal_mask(3, 3, CPU).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_the_last_query_is_at_the_last_key() -> None:
    assert causal_mask(2, 4, CPU).tolist() == [[True, True, True, False], [True, True, True, True]]
    assert causal_mask(1, 4, CPU).all()


def test_combined_masks_are_their_intersection() -> None:
    other = torch.tensor([[True, True], [False, True]])
    assert torch.equal(combine_masks(YES_NO, None, other), torch.tensor([[True, False], [False, True]]))  # type: ignore[arg-type]
    assert combine_masks(None, YES_NO) is YES_NO
    assert combine_masks(None, None) is None
    both = combine_masks(padding_mask(YES_NO), causal_mask(2, 2, CPU))
    assert both is not None and both.shape == (2, 1, 2, 2)
    assert both[0, 0].tolist() == [[True, False], [True, False]]


def test_a_bias_is_minus_infinity_where_the_mask_is_false() -> None:
    bias = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    both = combine_mask_and_bias(YES_NO, bias)
    assert both is not None and both.tolist() == [[1.0, -math.inf], [3.0, 4.0]]
    assert bias.tolist() == [[1.0, 2.0], [3.0, 4.0]]  # the bias is not changed: other layers use it too
    assert combine_mask_and_bias(None, bias) is bias
    assert combine_mask_and_bias(YES_NO, None) is YES_NO
    assert combine_mask_and_bias(None, None) is None


def test_a_bias_per_head_with_a_mask_per_sentence() -> None:
    both = combine_mask_and_bias(padding_mask(YES_NO), torch.zeros(3, 5, 2))  # (H, T, S)
    assert both is not None and both.shape == (2, 3, 5, 2)
    assert torch.equal(both.isfinite(), padding_mask(YES_NO).expand(2, 3, 5, 2))


def test_a_prefix_is_bidirectional_and_the_rest_is_causal() -> None:
    mask = prefix_mask(torch.tensor([2, 0]), 4)
    expected = [
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]],
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]],
    ]
    assert mask.shape == (2, 1, 4, 4)
    assert mask[:, 0].long().tolist() == expected
