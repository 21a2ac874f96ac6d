from __future__ import annotations

import pytest
import torch

from seqloom.nn.dropout import Dropout

COUNT = 200_003  # not a multiple of eight: the last draw is used for fewer elements


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5])
def test_dropped_fraction_and_mean(p: float) -> None:
    torch.manual_seed(1)
    dropped = Dropout(p)(torch.ones(COUNT))
    exact = round(p * 256) / 256
    kept = (dropped != 0).double().mean().item()
    four_sigma = 4 * (exact * (1 - exact) / COUNT) ** 0.5
    assert abs(kept - (1 - exact)) < four_sigma
    assert abs(dropped.double().mean().item() - 1) < four_sigma / (1 - exact)
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / (1 - exact)).item()}


def test_neighbours_are_independent() -> None:
    torch.manual_seed(1)
    kept = (Dropout(0.5)(torch.ones(COUNT)) != 0).double() - 0.5
    for distance in (1, 2, 7, 8, 16):  # one 64-bit draw gives the mask of eight neighbours
        correlation = (kept[:-distance] * kept[distance:]).mean() / 0.25
        assert abs(correlation.item()) < 5 / COUNT**0.5


def test_the_gradient_is_the_mask() -> None:
    x = torch.randn(7, 9, requires_grad=True)
    y = Dropout(0.4)(x)
    upstream = torch.randn(7, 9)
    y.backward(upstream)
    scale = 256 / (256 - round(0.4 * 256))
    assert x.grad is not None
    assert torch.equal(x.grad, torch.where(y != 0, upstream * scale, 0.0))


def test_the_layout_of_the_input_is_kept() -> None:
    x = torch.arange(1.0, 13.0).view(3, 4)
    torch.manual_seed(1)
    straight = Dropout(0.5)(x.t().contiguous())
    torch.manual_seed(1)
    assert torch.equal(Dropout(0.5)(x.t()), straight)


def test_evaluation_is_the_identity() -> None:
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_probabilities_are_multiples_of_one_in_256() -> None:
    assert [Dropout(p).threshold for p in (0.0, 0.1, 0.25, 0.5)] == [0, 26, 64, 128]
    assert "p=0.1016" in repr(Dropout(0.1))


def test_the_mask_depends_on_the_generator() -> None:
    layer, x = Dropout(0.5), torch.ones(100)
    torch.manual_seed(3)
    first = layer(x)
    assert not torch.equal(layer(x), first)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
