"""Gradient flow: norms of ∂J_i/∂h_j by distance i - j, measured on real batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.data.batching import collate
from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.inspect.encoder_states import EncoderStates
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import Style
from seqloom.nn.cells import RecurrentLayer, State
from seqloom.training.loss import cross_entropy
from seqloom.types import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqloom.inspect.gradient_picture import GradientComparison

SENTENCES = 16  # per batch: every target step costs one backward pass over the batch


@dataclass(frozen=True)
class Curve:
    """Mean gradient norms at distances 0, 1, 2 …, over all rows and steps that reach that distance.

    Gradients that overflow are counted but excluded from the means; if all overflow, the mean is infinite.
    """

    norm: list[float]  # mean norm
    ratio: list[float]  # mean norm divided by that at distance 0 of the same rows and steps
    count: list[int]  # number of gradients in the mean
    overflows: list[int] = field(
        default_factory=list
    )  # number of gradients that are not finite, even in double precision

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; infinite means become None, as JSON has no infinity."""
        finite = {name: [_or_none(mean) for mean in getattr(self, name)] for name in ("norm", "ratio")}
        return {**asdict(self), **finite}


@dataclass(frozen=True)
class GradientFlow(Inspection):
    """Gradients of the loss at target step i with respect to earlier states and inputs.

    The curves are `hidden` and `cell`, for the states of a recurrent decoder (all layers together) and the
    cells of an LSTM, `encoder` for the states of a recurrent encoder (all layers and directions together), and
    `target` and `source`, for the embeddings of both sides. Distances are target steps, i - j; for `source` and
    `encoder`, tokens from the end of the source. A simple RNN with one layer has a `prediction`: ∂J_i/∂h_i
    multiplied by W^ℓ only.
    """

    name: str
    sentences: int
    curves: dict[str, Curve]
    prediction: Curve | None = None
    spectral_radius: float | None = None  # largest |λ| of W

    def to_dict(self) -> dict[str, Any]:
        """Return all curves as plain data."""
        return {
            **asdict(self),
            "curves": {kind: curve.to_dict() for kind, curve in self.curves.items()},
            "prediction": self.prediction.to_dict() if self.prediction else None,
        }

    @property
    def overflows(self) -> int:
        """Number of gradients in all curves that are not finite."""
        curves = [*self.curves.values(), *([self.prediction] if self.prediction else [])]
        return sum(sum(curve.overflows) for curve in curves)

    def _as_comparison(self) -> GradientComparison:
        from seqloom.inspect.gradient_picture import GradientComparison

        return GradientComparison([self])

    def _title(self) -> str:
        return self._as_comparison()._title()

    def _size(self) -> tuple[float, float]:
        return self._as_comparison()._size()

    def _draw(self, figure: Figure, style: Style) -> None:
        self._as_comparison()._draw(figure, style)


@torch.enable_grad()
def measure_gradients(
    model: nn.Module,
    batches: Sequence[Batch],
    *,
    name: str = "",
    max_distance: int = 50,
    on_progress: Callable[[int], None] | None = None,
) -> GradientFlow:
    """Return norms of ∂J_i/∂(state, input vector) by distance, without dropout; the model is not changed.

    They are computed in double precision: a gradient that grows tenfold per step overflows a float after 38
    steps.

    One backward pass per target step i covers all rows of a batch: rows are independent, so the gradient of the
    sum of their losses is the gradient of each. `on_progress` is called after every step.
    """
    probe = _Probe(model)
    eigen = EigenPowers(probe.recurrent_matrix) if probe.recurrent_matrix is not None else None
    sums: dict[str, _DistanceSums] = {}
    for batch in batches:
        assert batch.target_out is not None
        hidden = probe.forward(batch)  # (B, T, A)
        for i in range(hidden.shape[1]):
            targets = batch.target_out[:, i : i + 1]
            loss = cross_entropy(hidden[:, i : i + 1], probe.output, targets).total
            gradients = probe.gradients(loss, i)
            norms = {kind: g.norm(dim=-1) for kind, g in gradients.items()}  # each (B, positions)
            if eigen:
                norms["prediction"] = eigen.norms(gradients["hidden"][:, i], longest=i).flip(1)
            for kind, found in norms.items():
                last = batch.source_lengths.unsqueeze(1) - 1 if kind in ("source", "encoder") else i
                distances = last - torch.arange(found.shape[1], device=found.device).expand_as(found)
                sums.setdefault(kind, _DistanceSums(max_distance)).add(
                    found, distances, batch.target_mask[:, i]
                )
            if on_progress:
                on_progress(1)
    curves = {kind: one.curve() for kind, one in sums.items()}
    return GradientFlow(
        name=name,
        sentences=sum(len(batch.source) for batch in batches),
        prediction=curves.pop("prediction", None),
        curves=curves,
        spectral_radius=eigen.spectral_radius if eigen else None,
    )


def longest_batches(store: TokenStore, count: int) -> list[Batch]:
    """Return `count` small batches of the pairs with the longest targets, which cover the largest distances."""
    _, targets = store.lengths(0, len(store))
    order = np.argsort(-targets, kind="stable")[: count * SENTENCES]
    return [collate(store, order[first : first + SENTENCES]) for first in range(0, len(order), SENTENCES)]


class EigenPowers:
    """Norms of g W^ℓ from the eigenvalues of W = Q Λ Q⁻¹, as W^ℓ = Q Λ^ℓ Q⁻¹.

    With h' = W h + … the chain rule gives ∂J_i/∂h_j = ∂J_i/∂h_i W^(i-j), which is exact if σ(x) = x (Pascanu et
    al. 2013, section 2.1). The gradient vanishes if every |λ| is below 1 and may explode if one is above.
    """

    def __init__(self, matrix: Tensor) -> None:
        self._values, self._vectors = torch.linalg.eig(matrix.detach().double())
        self._inverse = torch.linalg.inv(self._vectors)

    @property
    def spectral_radius(self) -> float:
        return float(self._values.abs().max())

    def norms(self, gradients: Tensor, longest: int) -> Tensor:
        """Return ‖g W^ℓ‖ of the rows (B, D) for ℓ from 0 to `longest`, (B, longest + 1)."""
        coordinates = gradients.to(self._vectors.dtype) @ self._vectors  # (B, D), in the basis of eigenvectors
        powers = torch.vander(self._values, longest + 1, increasing=True).T  # (ℓ, D)
        products = (coordinates.unsqueeze(1) * powers) @ self._inverse  # (B, ℓ, D)
        norms: Tensor = products.norm(dim=-1)
        return norms


class _Probe:
    """Copy of a model that keeps the states and inputs of a forward pass, to compute their gradients.

    A decoder with `unroll` is run step by step, by the equations of its cells instead of fused kernels. Every
    h_j and c_j is then one tensor on all paths to the loss: next step, output, attention and input feeding.
    """

    def __init__(self, model: nn.Module) -> None:
        if not hasattr(model, "hidden"):
            raise _no_gradients(model, "is not trained by gradient descent")
        self._model = cast(Any, deepcopy(model).eval().double())  # exploding gradients soon overflow a float
        self.output: nn.Linear = self._model.output
        self._batch: Batch | None = None
        self._inputs: dict[str, Tensor] = {}
        self._states: list[State] = []  # by step, then by layer
        self._layers: list[RecurrentLayer] = []
        for module in self._model.modules():
            if isinstance(module, nn.Embedding):
                module.register_forward_hook(self._keep_input)
        if hasattr(self._model, "unroll"):
            self._layers = list(self._model.decoder.layers)
        for layer in self._layers:
            layer.cell = replace(layer.cell, kernel="steps")
            layer.register_forward_hook(self._keep_state)
        self._encoder = EncoderStates(self._model)

    @property
    def recurrent_matrix(self) -> Tensor | None:
        """W of a decoder that is a simple RNN with one layer; otherwise None."""
        if [layer.cell.name for layer in self._layers] != ["rnn"]:
            return None
        return self._layers[0].weights().hidden

    def forward(self, batch: Batch) -> Tensor:
        """Return the inputs of the output layer, (B, T, A)."""
        if batch.source.is_floating_point():
            batch = replace(batch, source=batch.source.double())
        self._batch = batch
        self._inputs.clear()
        self._states.clear()
        self._encoder.clear()
        hidden: Tensor = self._model.unroll(batch)[0] if self._layers else self._model.hidden(batch)
        # A language model reads the source with the same layers: keep the states of the target only.
        del self._states[: len(self._states) - hidden.shape[1] * len(self._layers)]
        if len(self._inputs) < 2:
            raise _no_gradients(self._model, "does not have an embedding for each side")
        return hidden

    def gradients(self, loss: Tensor, step: int) -> dict[str, Tensor]:
        """Return gradients of a loss: (B, step + 1, layers x D) for the decoder, else (B, positions, ·)."""
        states = self._states[: (step + 1) * len(self._layers)]
        parts = list(zip(*states, strict=True))  # hidden states, and cells if there are any
        tensors = [*self._inputs.values(), *(tensor for part in parts for tensor in part)]
        tensors += self._encoder.tensors
        found = iter(torch.autograd.grad(loss, tensors, retain_graph=True, materialize_grads=True))
        gradients = {kind: next(found) for kind in self._inputs}
        for kind, part in zip(("hidden", "cell"), parts, strict=False):
            stacked = torch.stack([next(found) for _ in part], dim=1)  # (B, steps x layers, D)
            gradients[kind] = stacked.reshape(len(stacked), step + 1, -1)
        if self._encoder.tensors:
            assert self._batch is not None
            gradients["encoder"] = self._encoder.by_position(found, self._batch.source_lengths)
        return gradients

    def _keep_input(self, module: nn.Module, inputs: tuple[Tensor, ...], embedded: Tensor) -> None:
        """Keep the embedded input; the ids show the side, as both sides may share one embedding."""
        assert self._batch is not None
        if inputs[0] is self._batch.source:
            self._inputs["source"] = embedded
        elif inputs[0] is self._batch.target_in:
            self._inputs["target"] = embedded

    def _keep_state(self, module: nn.Module, inputs: Any, result: tuple[Tensor, State]) -> None:
        self._states.append(result[1])


def _no_gradients(model: nn.Module, reason: str) -> SeqloomError:
    return SeqloomError(
        f"The gradients of {type(model).__name__} cannot be inspected: it {reason}.",
        "choose a neural model (see `seqloom models`)",
    )


class _DistanceSums:
    """Sums of norms by distance, and of the norms at distance 0 of the same rows and steps."""

    def __init__(self, longest: int) -> None:
        self._norms, self._nearest = torch.zeros(2, longest + 1, dtype=torch.float64)
        self._counts, self._overflows = torch.zeros(2, longest + 1, dtype=torch.int64)

    def add(self, norms: Tensor, distances: Tensor, rows: Tensor) -> None:
        """Add norms (B, positions) at distances (B, positions) of the rows (B,) that are real at this step."""
        nearest = norms[distances == 0].unsqueeze(1).expand_as(norms)  # a row has one position at distance 0
        seen = rows.unsqueeze(1) & (distances >= 0) & (distances < len(self._counts))
        finite = norms.isfinite() & nearest.isfinite()
        self._overflows += distances[seen & ~finite].cpu().bincount(minlength=len(self._counts))
        seen &= finite
        places = distances[seen].cpu()
        self._norms.index_add_(0, places, norms[seen].cpu())
        self._nearest.index_add_(0, places, nearest[seen].cpu())
        self._counts += places.bincount(minlength=len(self._counts))

    def curve(self) -> Curve:
        """Return the means up to the longest observed distance; a ratio to zero is 0."""
        observed = self._counts + self._overflows > 0
        norms, nearest, counts = self._norms[observed], self._nearest[observed], self._counts[observed]
        means = torch.where(counts > 0, norms / counts, torch.inf)
        ratios = torch.where(nearest > 0, norms / nearest, 0.0).where(counts > 0, torch.inf)
        return Curve(means.tolist(), ratios.tolist(), counts.tolist(), self._overflows[observed].tolist())


def _or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None
