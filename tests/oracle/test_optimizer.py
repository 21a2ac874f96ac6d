"""The updater against AdamW with clipping and against gradient descent in NumPy; the moving average."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seqloom.training.config import TrainConfig
from seqloom.training.optimizer import MovingAverage, Updater

over_optimizers = pytest.mark.parametrize(
    "config",
    [TrainConfig(), TrainConfig(optimizer="sgd"), TrainConfig(optimizer="sgd", momentum=0.9)],
    ids=["adamw", "sgd", "momentum"],
)


def _model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))


def _batch(rows: int, seed: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 6, generator=random), scale * torch.randn(rows, 3, generator=random)


def _sum_of_losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    total: Tensor = ((model(x) - y) ** 2).sum()
    return total


def _weights(model: nn.Module) -> list[Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]


def _accumulate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> int:
    """The gradient of the summed loss; how many rows it is of."""
    count = 0
    for batch in batches:
        _sum_of_losses(model, batch).backward()  # type: ignore[no-untyped-call]
        count += len(batch[0])
    return count


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_an_update_is_adamw_on_the_clipped_mean_gradient(decay: float, clip: float) -> None:
    ours, theirs = _model(), _model()
    config = TrainConfig(weight_decay=decay, clip=clip, betas=(0.8, 0.95))
    updater = Updater(ours, config)
    matrices = [weight for weight in theirs.parameters() if weight.dim() > 1]
    vectors = [weight for weight in theirs.parameters() if weight.dim() <= 1]
    adam = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}],
        betas=(0.8, 0.95),
    )
    for step in range(1, 9):
        batch, rate = _batch(3 + step, seed=step, scale=1.0 + step), 0.01 / step
        update = updater.update(_accumulate(ours, [batch]), rate)
        (_sum_of_losses(theirs, batch) / len(batch[0])).backward()  # type: ignore[no-untyped-call]
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), clip or torch.inf)
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
        adam.zero_grad()
        assert update.skipped.item() == 0
        assert_close(update.norm, expected, rtol=1e-5, atol=1e-6)
        excess = max(expected.item() / clip, 1.0) if clip else 1.0
        assert update.excess.item() == pytest.approx(excess, rel=1e-5)
        assert_close(_weights(ours), _weights(theirs), rtol=0, atol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_sgd_is_gradient_descent_with_momentum(momentum: float, clip: float, decay: float) -> None:
    """v ← μ v + g + λ w and w ← w - η v, with v = 0 at first; vectors have no decay λ."""
    model, twin = _model(), _model()
    updater = Updater(model, TrainConfig(optimizer="sgd", momentum=momentum, clip=clip, weight_decay=decay))
    weights = [weight.numpy() for weight in _weights(model)]
    velocities = [np.zeros_like(weight) for weight in weights]
    for step in range(1, 9):
        batch, rate = _batch(3 + step, seed=step, scale=1.0 + step), 0.1 / step
        twin.zero_grad()
        for parameter, weight in zip(twin.parameters(), weights, strict=True):
            parameter.data = torch.from_numpy(weight)
        (_sum_of_losses(twin, batch) / len(batch[0])).backward()  # type: ignore[no-untyped-call]
        gradients = [parameter.grad.numpy() for parameter in twin.parameters() if parameter.grad is not None]
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
        factor = min(1.0, clip / norm) if clip else 1.0
        for n, gradient in enumerate(gradients):
            decayed = decay * weights[n] if weights[n].ndim > 1 else 0.0
            velocities[n] = momentum * velocities[n] + factor * gradient + decayed
            weights[n] = weights[n] - rate * velocities[n]
        updater.update(_accumulate(model, [batch]), rate)
        for ours, weight in zip(_weights(model), weights, strict=True):
            np.testing.assert_allclose(ours.numpy(), weight, rtol=0, atol=1e-5)


def test_ragged_parts_add_up_to_the_big_batch() -> None:
    whole, parts = _model(), _model()
    config = TrainConfig()
    updaters = Updater(whole, config), Updater(parts, config)
    for step in range(5):
        x, y = _batch(14, seed=step)
        pieces = [(x[:2], y[:2]), (x[2:3], y[2:3]), (x[3:], y[3:])]
        updaters[0].update(_accumulate(whole, [(x, y)]), 0.01)
        updaters[1].update(_accumulate(parts, pieces), 0.01)
    assert_close(_weights(parts), _weights(whole), rtol=0, atol=1e-6)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("clip", [0.0, 1.0])
@over_optimizers
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_reported(
    config: TrainConfig, poison: float, clip: float
) -> None:
    model = _model()
    updater = Updater(model, config.model_copy(update={"clip": clip, "weight_decay": 0.1}))
    updater.update(_accumulate(model, [_batch(5, seed=1)]), 0.01)
    weights = _weights(model)
    state = {name: tensor.clone() for name, tensor in updater.state().items()}
    count = _accumulate(model, [_batch(5, seed=2)])
    first = next(iter(model.parameters()))
    assert first.grad is not None
    first.grad[0, 0] = poison
    update = updater.update(count, 0.01)
    assert update.skipped.item() == 1
    assert not update.norm.isfinite()
    assert all(torch.equal(a, b) for a, b in zip(_weights(model), weights, strict=True))
    assert updater.state().keys() == state.keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in updater.state().items())
    # Nothing of it is left for the next update either.
    assert updater.update(_accumulate(model, [_batch(5, seed=3)]), 0.01).skipped.item() == 0
    assert all(not torch.equal(a, b) for a, b in zip(_weights(model), weights, strict=True))


@over_optimizers
def test_even_the_first_update_may_be_skipped(config: TrainConfig) -> None:
    model = _model()
    updater, weights = Updater(model, config), _weights(model)
    count = _accumulate(model, [_batch(5, seed=1, scale=torch.inf)])
    assert updater.update(count, 0.01).skipped.item() == 1
    assert all(torch.equal(a, b) for a, b in zip(_weights(model), weights, strict=True))
    updater.update(_accumulate(model, [_batch(5, seed=2)]), 0.01)
    fresh = _model()
    Updater(fresh, config).update(_accumulate(fresh, [_batch(5, seed=2)]), 0.01)
    assert_close(_weights(model), _weights(fresh), rtol=0, atol=0)


@over_optimizers
def test_an_updater_goes_on_from_its_saved_state(config: TrainConfig) -> None:
    model = _model()
    updater = Updater(model, config)
    for step in range(3):
        updater.update(_accumulate(model, [_batch(5, seed=step)]), 0.01)
    copy = _model()
    copy.load_state_dict(model.state_dict())
    other = Updater(copy, config)
    other.restore({name: tensor.clone() for name, tensor in updater.state().items()})
    for one, net in ((updater, model), (other, copy)):
        one.update(_accumulate(net, [_batch(5, seed=9)]), 0.01)
    assert all(torch.equal(a, b) for a, b in zip(_weights(model), _weights(copy), strict=True))


class _Stacks(nn.Module):
    """Two stacks, tied embedding and output, and a layer that the loss does not use."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(7, 4)
        self.encoder = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.decoder = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(4, 4)])})
        self.spare = nn.Linear(2, 2)
        self.output = nn.Linear(4, 7)
        self.output.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.embedding(ids)
        for layer in (*self.encoder, *self.decoder["layers"]):  # type: ignore[misc]
            vectors = layer(vectors).tanh()
        scores: Tensor = self.output(vectors)
        return scores


@pytest.mark.parametrize("clip", [0.0, 1e-3])  # the norms are those before clipping
def test_the_norms_of_the_layers_are_those_of_their_gradients(clip: float) -> None:
    model, twin, ids = _Stacks(), _Stacks().double(), torch.arange(6)
    (5.0 * (model(ids) ** 2).sum()).backward()
    updater = Updater(model, TrainConfig(clip=clip))
    update = updater.update(6, 0.01)

    loss = 5.0 * (twin(ids) ** 2).sum() / 6
    weights = {name: weight for name, weight in twin.named_parameters() if not name.startswith("spare")}
    gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
    layers = {
        "embedding": ["embedding.weight"],  # output.weight is the same one
        "encoder.0": ["encoder.0.weight", "encoder.0.bias"],
        "encoder.1": ["encoder.1.weight", "encoder.1.bias"],
        "decoder.layers.0": ["decoder.layers.0.weight", "decoder.layers.0.bias"],
        "spare": [],
        "output": ["output.bias"],
    }
    expected = {
        layer: float(
            np.linalg.norm(np.concatenate([[0.0], *(gradients[name].numpy().ravel() for name in names)]))
        )
        for layer, names in layers.items()
    }
    norms = updater.layer_norms(update.parts)
    assert list(norms) == list(expected)
    assert norms == pytest.approx(expected, rel=1e-5)
    everything = np.linalg.norm(np.concatenate([gradient.numpy().ravel() for gradient in gradients.values()]))
    assert update.norm.item() == pytest.approx(everything, rel=1e-5)
    assert sum(norm**2 for norm in norms.values()) == pytest.approx(everything**2, rel=1e-5)


def test_the_moving_average_is_the_recurrence() -> None:
    model = _model().double()
    average = MovingAverage(model, decay=0.9)
    expected = [weight.numpy().copy() for weight in _weights(model)]
    for step in range(1, 120):
        for weight in model.parameters():
            weight.data += torch.randn(weight.shape, dtype=weight.dtype)
        average.update(step)
        decay = min(0.9, (1 + step) / (10 + step))
        now = [weight.numpy() for weight in _weights(model)]
        expected = [decay * old + (1 - decay) * new for old, new in zip(expected, now, strict=True)]
    for ours, theirs in zip(average.average.values(), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=1e-12)


def test_swapping_twice_changes_nothing() -> None:
    model = _model()
    average = MovingAverage(model, decay=0.5)
    for weight in model.parameters():
        weight.data += 1.0
    live, kept = _weights(model), [tensor.clone() for tensor in average.average.values()]
    average.swap()
    assert_close(_weights(model), kept, rtol=0, atol=0)
    average.swap()
    assert_close(_weights(model), live, rtol=0, atol=0)
    assert_close(list(average.average.values()), kept, rtol=0, atol=0)
