"""Gradients of models with random weights: by |λ| of a recurrent network, and by depth of a Transformer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.inspect.gradients import measure_gradients
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import BLUE, COLORS, GREEN, ORANGE, VERMILLION, Style
from seqloom.inspect.untrained import batch_of, build_fresh, ids
from seqloom.models.base import SequenceModel
from seqloom.nn.cells import Activation, RecurrentLayer
from seqloom.training.loss import cross_entropy
from seqloom.types import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the documents
STEEPEST: Mapping[Activation, float] = {"tanh": 1.0, "sigmoid": 0.25, "relu": 1.0, "identity": 1.0}  # max σ'
STACKS = {
    "both": (True, True),
    "residual only": (True, False),
    "norm only": (False, True),
    "neither": (False, False),
}
_STACK_COLORS = (BLUE, ORANGE, GREEN, VERMILLION)
_SENTENCES, _TOKENS = 4, 20


@dataclass(frozen=True)
class GainCurve:
    """Gradient norms of one |λ|, relative to distance 0, for the states of the decoder and of the encoder."""

    gain: float  # |λ| of W, which is orthogonal before it is scaled
    bound: float  # γ |λ| with γ = max σ': no factor per step is larger
    decoder: tuple[float, ...]
    encoder: tuple[float, ...]

    @property
    def rates(self) -> tuple[float, float]:
        """Fitted factors per step: decoder, encoder."""
        return rate(self.decoder), rate(self.encoder)


@dataclass(frozen=True)
class GainGradients(Inspection):
    """Gradients of a simple RNN with random weights, for several |λ|."""

    activation: Activation
    curves: tuple[GainCurve, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return norms, factors per step and bounds."""
        curves = [
            {**asdict(one), "decoder_rate": one.rates[0], "encoder_rate": one.rates[1]} for one in self.curves
        ]
        return {"version": VERSION, "activation": self.activation, "gains": curves}

    def _title(self) -> str:
        return f"Gradients of an RNN with random weights, σ = {self.activation}, by |λ|"

    def _size(self) -> tuple[float, float]:
        return 9.5, 4.2

    def _draw(self, figure: Figure, style: Style) -> None:
        for side, axes in zip(("decoder", "encoder"), figure.subplots(1, 2), strict=True):
            for one, color in zip(self.curves, COLORS * len(self.curves), strict=False):
                norms = getattr(one, side)
                steps = np.arange(len(norms))
                axes.plot(steps, norms, "o", ms=3, color=color, label=rf"$|\lambda|$ = {one.gain:g}")
                axes.plot(steps, one.bound**steps, "--", lw=1, color=color)
            axes.plot([], [], "--", lw=1, color="0.4", label=r"bound $(\gamma\,|\lambda|)^{\ell}$")
            axes.set(title=f"{side} states", xlabel="distance in steps", ylabel="relative gradient norm")
            axes.set_yscale("log", nonpositive="mask")
            axes.grid()
        axes.legend()


@dataclass(frozen=True)
class DepthGradients(Inspection):
    """Gradient norms with respect to the input of every encoder layer, by kind of stack."""

    norms: Mapping[str, tuple[float, ...]]  # see STACKS

    def to_dict(self) -> dict[str, Any]:
        """Return the norms of every stack."""
        return {"version": VERSION, **asdict(self)}

    def _title(self) -> str:
        return "Gradients of a Transformer with random weights, by layer"

    def _size(self) -> tuple[float, float]:
        return 6.5, 4.2

    def _draw(self, figure: Figure, style: Style) -> None:
        axes = figure.subplots()
        for (kind, norms), color in zip(self.norms.items(), _STACK_COLORS, strict=True):
            relative = [norm / norms[-1] for norm in norms]
            axes.plot(range(1, len(norms) + 1), relative, "o-", ms=3, color=color, label=kind)
        axes.set(xlabel="layer, from the input", ylabel="gradient norm, relative to the last layer")
        axes.set_yscale("log", nonpositive="mask")
        axes.locator_params(axis="x", integer=True)
        axes.grid()
        axes.legend(title="residual, norm")


def gain_gradients(
    gains: Sequence[float], *, activation: Activation = "identity", width: int = 32, steps: int = 40
) -> GainGradients:
    """Return the gradients of fresh simple RNNs whose matrices W are orthogonal, times each gain."""
    curves = []
    for gain in gains:
        model = build_fresh(
            "rnn-notes", [f"model.width={width}", f"model.activation={activation}", "model.init=orthogonal"]
        )
        batch = batch_of(ids(_SENTENCES, steps, seed=1), ids(_SENTENCES, steps, seed=2))
        for layer in _layers(model):
            scale_to_gain(layer.weights().hidden, gain)
        decoder = measure_gradients(model, [batch], max_distance=steps - 1).curves["hidden"].ratio
        curves.append(
            GainCurve(gain, STEEPEST[activation] * gain, tuple(decoder), _encoder_norms(model, batch))
        )
    return GainGradients(activation, tuple(curves))


@torch.no_grad()
def scale_to_gain(matrix: Tensor, gain: float) -> None:
    """Scale a matrix so that its largest eigenvalue has the size `gain`."""
    matrix.mul_(gain / torch.linalg.eigvals(matrix.double()).abs().max())


def rate(ratios: Sequence[float]) -> float:
    """Return the factor per step, fitted on a logarithmic scale; zeros are left out."""
    logarithms = [math.log(ratio) for ratio in ratios if ratio > 0]
    return math.exp(np.polyfit(np.arange(len(logarithms)), logarithms, 1)[0])


def _layers(model: nn.Module) -> list[RecurrentLayer]:
    return [module for module in model.modules() if isinstance(module, RecurrentLayer)]


@torch.enable_grad()
def _encoder_norms(model: nn.Module, batch: Batch) -> tuple[float, ...]:
    """Return the mean of ‖∂(g·h_S)/∂h_j‖ by distance S - j, relative to ‖g‖, for a random g."""
    model = model.double()
    encoder: Any = model.get_submodule("encoder")
    (layer,) = _layers(encoder)
    embedded: Tensor = cast(Any, model).source_embedding(batch.source)
    state = (embedded.new_zeros(len(embedded), layer.width),)
    states = []
    for position in embedded.unbind(dim=1):
        state = layer.cell.step(position, state, layer.weights())  # type: ignore[assignment]
        states.append(state[0])
    random = torch.Generator().manual_seed(3)
    g = torch.randn(states[-1].shape, generator=random, dtype=torch.float64)
    gradients = torch.autograd.grad((states[-1] * g).sum(), states)
    return tuple(float((one.norm(dim=1) / g.norm(dim=1)).mean()) for one in reversed(gradients))


def depth_gradients(layers: int, *, width: int = 64, norm_place: str = "before") -> DepthGradients:
    """Return the gradients of fresh Transformers with and without residual connections and norms."""
    batch = batch_of(ids(_SENTENCES, _TOKENS, seed=1), ids(_SENTENCES, _TOKENS, seed=2))
    options = [f"model.width={width}", "model.heads=4", f"model.layers={layers}", "model.decoder_layers=1"]
    norms = {}
    for kind, (residual, has_norm) in STACKS.items():
        place = norm_place if has_norm else "none"
        model = build_fresh(
            "transformer", [*options, f"model.residual={str(residual).lower()}", f"model.norm_place={place}"]
        )
        norms[kind] = tuple(norms_by_layer(cast(SequenceModel, model.double()), batch))
    return DepthGradients(norms)


@torch.enable_grad()
def norms_by_layer(model: SequenceModel, batch: Batch) -> list[float]:
    """Return the gradient norm of the loss with respect to the input of every encoder layer."""
    inputs: list[Tensor] = []

    def keep(block: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        inputs.append(arguments[0])

    hooks = [block.register_forward_pre_hook(keep) for block in model.get_submodule("encoder").children()]
    assert batch.target_out is not None
    loss = cross_entropy(model.hidden(batch), model.output, batch.target_out).total
    for hook in hooks:
        hook.remove()
    return [float(gradient.norm()) for gradient in torch.autograd.grad(loss, inputs)]
