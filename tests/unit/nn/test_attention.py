from __future__ import annotations

import torch
from torch.testing import assert_close

from seqloom.nn.attention import attend, dot_scores


def test_a_masked_key_gets_weight_zero_whatever_its_score() -> None:
    scores = torch.tensor([[1e30, 0.0, 1.0]])
    context, weights = attend(scores, torch.eye(3), torch.tensor([[False, True, True]]))
    assert weights[0, 0] == 0
    assert weights[0, 1:].tolist() == torch.tensor([0.0, 1.0]).softmax(0).tolist()
    assert torch.equal(context, weights)


def test_a_factor_scales_weights_after_the_softmax() -> None:
    context, weights = attend(torch.zeros(1, 2), torch.eye(2), factor=torch.tensor([[1.0, 0.5]]))
    assert weights.tolist() == [[0.5, 0.25]]
    assert torch.equal(context, weights)


def test_scaled_scores_keep_their_spread_as_the_width_grows() -> None:
    torch.manual_seed(1)
    for width in (4, 1024):
        q, k = torch.randn(300, width), torch.randn(300, width)
        assert_close(dot_scores(q, k).std(), torch.tensor(1.0), rtol=0.0, atol=0.1)
        assert_close(dot_scores(q, k, scaled=False).std(), torch.tensor(width**0.5), rtol=0.1, atol=0.0)
