from __future__ import annotations

import torch

from seqloom.nn.attention import CrossAttention, SelfAttention, attend


def test_a_masked_key_gets_weight_zero_whatever_its_score() -> None:
    scores = torch.tensor([[1e30, 0.0, 1.0]])
    context, weights = attend(scores, torch.eye(3), torch.tensor([[False, True, True]]))
    assert weights[0, 0] == 0
    assert weights[0, 1:].tolist() == torch.tensor([0.0, 1.0]).softmax(0).tolist()
    assert torch.equal(context, weights)


def test_the_past_is_extended_not_changed() -> None:
    layer = SelfAttention(8, 2)
    _, first = layer.step(torch.randn(3, 1, 8), None)
    kept = [part.clone() for part in first]
    _, second = layer.step(torch.randn(3, 1, 8), first)
    assert [part.shape for part in second] == [(3, 2, 2, 4)] * 2
    assert all(torch.equal(part, before) for part, before in zip(first, kept, strict=True))
    assert all(torch.equal(new[:, :, :1], old) for new, old in zip(second, first, strict=True))


def test_the_rows_of_a_sentence_share_its_memory() -> None:
    layer = CrossAttention(8, 2)
    source, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    memory = layer.remember(source)
    x = torch.randn(6, 1, 8)  # three hypotheses for each of two sentences
    together, _ = layer.step(x, memory, mask)
    wide = tuple(part.repeat_interleave(3, dim=0) for part in memory)
    apart, _ = layer.step(x, (wide[0], wide[1]), mask.repeat_interleave(3, dim=0))
    torch.testing.assert_close(together, apart)
