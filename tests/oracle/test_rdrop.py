"""R-Drop against torch's own KL divergence, in value and in gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.registry import architecture
from seqloom.training import rdrop as module
from seqloom.training.loss import LossModule
from seqloom.training.rdrop import symmetric_kl
from seqloom.types import PAD, Batch, Vocabularies

VOCABULARY, WIDTH = 11, 5
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
SOURCES, TARGETS = [[4, 5, 6], [7], [8, 9]], [[5, 6, 7, 8], [4], [9, 9]]
LONG = [[5, 6, 7, 8, 4, 4, 4, 5, 6, 7], [4], [9]]  # mostly padding


def _divergence(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the symmetric divergence of two passes (2B, T, V), as the authors compute it."""
    p, q = logits.log_softmax(-1).chunk(2)
    real = (targets.chunk(2)[0] != PAD).unsqueeze(-1)
    forward = kl_div(q, p, log_target=True, reduction="none") * real
    backward = kl_div(p, q, log_target=True, reduction="none") * real
    return (forward.sum() + backward.sum()) / 2


@pytest.mark.parametrize("rows_at_a_time", [1, 4, 11, 12, 1000])
def test_value_and_gradients(monkeypatch: pytest.MonkeyPatch, rows_at_a_time: int) -> None:
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", rows_at_a_time * VOCABULARY)
    random = torch.Generator().manual_seed(1)
    hidden = torch.randn(4, 6, WIDTH, generator=random, dtype=torch.float64, requires_grad=True)
    output = nn.Linear(WIDTH, VOCABULARY).double()
    targets = torch.randint(1, VOCABULARY, (2, 6), generator=random)
    targets[0, 3:] = PAD
    targets = targets.repeat(2, 1)
    inputs = (hidden, output.weight, output.bias)
    expected, total = _divergence(output(hidden), targets), symmetric_kl(hidden, output, targets)
    assert expected > 0.1
    assert_close(total, expected, **EXACT)
    ours, theirs = (torch.autograd.grad(3.0 * value, inputs) for value in (total, expected))
    for own, other in zip(ours, theirs, strict=True):
        assert_close(own, other, **EXACT)


def test_equal_passes_have_no_divergence() -> None:
    hidden, output = torch.randn(2, 3, WIDTH).repeat(2, 1, 1), nn.Linear(WIDTH, VOCABULARY)
    assert symmetric_kl(hidden, output, torch.ones(4, 3, dtype=torch.long)).item() == pytest.approx(0, abs=1e-6)


def test_logits_far_apart_stay_finite() -> None:
    output = nn.Linear(1, 3)
    output.weight.data = torch.tensor([[0.0], [1.0], [-1.0]])
    hidden = torch.tensor([[[1e4]], [[-1e4]]], requires_grad=True)
    total = symmetric_kl(hidden, output, torch.tensor([[2], [2]]))
    total.backward()  # type: ignore[no-untyped-call]
    assert total.isfinite()
    assert hidden.grad is not None and hidden.grad.isfinite().all()


def _model(dropout: float, name: str = "transformer") -> Any:
    torch.manual_seed(1)
    entry = architecture(name)
    values = {**entry.overrides, "name": name, "size": "tiny", "dropout": dropout}
    return entry.build(entry.settings.model_validate(values), Vocabularies(12, 12, True)).double().train()


def _batch(targets: list[list[int]] = TARGETS) -> Batch:
    return collate_ids(SOURCES, targets, range(3))


@pytest.mark.parametrize("name", ["transformer", "lstm-bilinear", "lm"])
@pytest.mark.parametrize("targets", [TARGETS, LONG], ids=["dense", "mostly padding"])
def test_the_loss_is_half_of_the_published_equation(name: str, targets: list[list[int]]) -> None:
    model, batch, alpha = _model(0.3, name), _batch(targets), 5.0
    torch.manual_seed(7)
    logits = model(batch.twice())
    wanted = batch.twice().target_out
    assert wanted is not None
    losses = [
        cross_entropy(
            logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
        )
        for smoothing in (0.1, 0.0)
    ]
    expected = (losses[0] + alpha * _divergence(logits, wanted)) / 2
    assert _divergence(logits, wanted) > 1e-3
    torch.manual_seed(7)
    loss = LossModule(model, 0.1, "float32", rdrop=alpha)(batch)
    assert_close(loss.total, expected, **EXACT)
    assert_close(loss.nll, losses[1] / 2, **EXACT)
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    ours, theirs = (
        torch.autograd.grad(value, parameters, allow_unused=True) for value in (loss.total, expected)
    )
    for own, other in zip(ours, theirs, strict=True):
        assert_close(own, other, **EXACT)


def test_without_dropout_it_is_the_ordinary_loss_of_the_whole_batch_and_of_its_parts() -> None:
    model, batch = _model(0.0), _batch()
    plain = LossModule(model, 0.1, "float32")(batch)
    loss_module = LossModule(model, 0.1, "float32", rdrop=3.0)
    assert_close(tuple(loss_module(batch)), tuple(plain), **EXACT)
    parts = [loss_module(batch.rows(slice(row, row + 1))) for row in range(3)]
    assert_close(sum(part.total for part in parts), plain.total, **EXACT)


def test_a_batch_twice_has_every_sentence_twice() -> None:
    batch = _batch().twice()
    assert batch.target_tokens == 2 * _batch().target_tokens
    assert torch.equal(batch.source[:3], batch.source[3:])
    assert batch.source_lengths.tolist() == [4, 2, 3, 4, 2, 3]
