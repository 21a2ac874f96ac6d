"""The chunked loss against torch's own cross entropy, in value and in gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy as torch_cross_entropy
from torch.testing import assert_close

from seqloom.training import loss as module
from seqloom.training.loss import cross_entropy
from seqloom.types import PAD

VOCABULARY, WIDTH = 11, 5


def _problem() -> tuple[Tensor, nn.Linear, Tensor]:
    random = torch.Generator().manual_seed(1)
    hidden = torch.randn(4, 6, WIDTH, generator=random, dtype=torch.float64)
    output = nn.Linear(WIDTH, VOCABULARY).double()
    targets = torch.randint(1, VOCABULARY, (4, 6), generator=random)
    targets[0, 3:] = targets[2, 1:] = PAD
    return hidden.requires_grad_(), output, targets


def _gradients(total: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(3.0 * total, inputs)  # a factor, as accumulation and scaling bring one


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("rows_at_a_time", [1, 5, 23, 24, 1000])
def test_value_and_gradients(monkeypatch: pytest.MonkeyPatch, smoothing: float, rows_at_a_time: int) -> None:
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", rows_at_a_time * VOCABULARY)
    hidden, output, targets = _problem()
    inputs = (hidden, output.weight, output.bias)
    logits = output(hidden).flatten(0, 1)
    expected = torch_cross_entropy(
        logits, targets.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    nll = torch_cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
    loss = cross_entropy(hidden, output, targets, smoothing)
    assert_close(loss.total, expected, rtol=0, atol=1e-10)
    assert_close(loss.nll, nll, rtol=0, atol=1e-10)
    for ours, theirs in zip(_gradients(loss.total, *inputs), _gradients(expected, *inputs), strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_only_a_chunk_of_logits_is_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    addmm = torch.addmm

    def counted(*inputs: Tensor) -> Tensor:
        sizes.append(addmm(*inputs).shape[0])
        return addmm(*inputs)

    monkeypatch.setattr(torch, "addmm", counted)
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 10 * VOCABULARY + 1)
    cross_entropy(*_problem())
    assert sizes == [10, 10, 4]


def test_the_gradient_is_the_slope_of_the_value() -> None:
    hidden, output, targets = _problem()
    assert torch.autograd.gradcheck(
        lambda h, w, b: module._CrossEntropy.apply(h, w, b, targets.flatten(), 0.1, True)[0],  # type: ignore[no-untyped-call]
        (hidden.detach().flatten(0, 1).requires_grad_(), output.weight, output.bias),
    )


def test_an_impossible_target_has_a_finite_and_exact_loss() -> None:
    output = torch.nn.Linear(2, 6)
    with torch.no_grad():
        output.weight.zero_()
        output.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 200.0, 0.0]))
    hidden, targets = torch.zeros(1, 1, 2), torch.tensor([[5]])
    expected = torch.nn.functional.cross_entropy(output.bias.view(1, -1), targets[0], label_smoothing=0.1)
    total = module.cross_entropy(hidden, output, targets, 0.1).total
    assert total.item() == pytest.approx(expected.item())


def test_measuring_takes_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, output, targets = _problem()

    def forbidden(*_: object) -> None:
        raise AssertionError("a gradient was computed")

    monkeypatch.setattr(torch.Tensor, "addmm_", forbidden)
    with torch.no_grad():
        module.cross_entropy(hidden, output, targets, 0.1)
    with pytest.raises(AssertionError, match="gradient was computed"):
        module.cross_entropy(hidden, output, targets, 0.1)


def test_padding_counts_nothing() -> None:
    hidden, output, targets = _problem()
    real = targets != PAD
    padded = cross_entropy(hidden, output, targets, 0.1)
    bare = cross_entropy(hidden[real].unsqueeze(0), output, targets[real].unsqueeze(0), 0.1)
    assert_close(padded, bare, rtol=0, atol=1e-10)
    (gradient,) = torch.autograd.grad(padded.total, hidden)
    assert not gradient[~real].any()


def test_the_log_likelihood_is_a_measurement_without_gradient() -> None:
    hidden, output, targets = _problem()
    assert not cross_entropy(hidden, output, targets, 0.1).nll.requires_grad


def test_logits_far_apart_stay_finite() -> None:
    output = nn.Linear(1, 3, bias=False)
    output.bias = nn.Parameter(torch.zeros(3))
    output.weight.data = torch.tensor([[0.0], [1.0], [-1.0]])
    hidden = torch.tensor([[[1e4], [-1e4]]], requires_grad=True)
    loss = cross_entropy(hidden, output, torch.tensor([[2, 1]]), 0.1)
    loss.total.backward()  # type: ignore[no-untyped-call]
    assert loss.total.isfinite()
    assert loss.nll.isfinite()
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()
