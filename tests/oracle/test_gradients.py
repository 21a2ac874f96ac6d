"""Gradients by distance, against the same by hand, by differences and by powers of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqloom.data.batching import collate_ids
from seqloom.inspect.gradients import Curve, EigenPowers, measure_gradients
from seqloom.registry import architecture
from seqloom.types import Batch, Vocabularies

Array = NDArray[np.float64]
WIDTH = 6


def build(name: str, **fields: Any) -> Any:
    """A small model in double precision, with weights large enough that gradients travel."""
    torch.manual_seed(3)
    entry = architecture(name)
    values = {**entry.overrides, "name": name, "width": WIDTH, "layers": 1, "tie": "none", **fields}
    model = entry.build(entry.settings.model_validate(values), Vocabularies(40, 40, False)).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    return model


def batch() -> Batch:
    """Two pairs of different lengths; no id stands twice on a side."""
    return collate_ids([[4, 5, 6, 7], [8, 9]], [[10, 11, 12, 13, 14], [15, 16]], [0, 1])


def losses(model: Any, data: Batch) -> torch.Tensor:
    """-log p of every target token, (B, T), padding included."""
    assert data.target_out is not None
    log_probs: torch.Tensor = model(data).log_softmax(-1)
    return -log_probs.gather(-1, data.target_out.unsqueeze(-1)).squeeze(-1)


def by_distance(norms: dict[int, list[float]]) -> list[float]:
    return [float(np.mean(norms[distance])) for distance in sorted(norms)]


@pytest.mark.parametrize("context", ["last", "attention"])
def test_what_the_eigenvalues_predict_for_a_linear_rnn_is_what_is_measured(context: str) -> None:
    flow = measure_gradients(build("rnn-last", activation="identity", context=context), [batch()])
    assert flow.prediction is not None
    assert len(flow.prediction.norm) == 6
    np.testing.assert_allclose(flow.curves["hidden"].norm, flow.prediction.norm, rtol=1e-6)
    np.testing.assert_allclose(flow.curves["hidden"].ratio, flow.prediction.ratio, rtol=1e-6)


def test_the_prediction_is_an_upper_reference_for_tanh() -> None:
    flow = measure_gradients(build("rnn-last"), [batch()])
    assert flow.prediction is not None
    measured = flow.curves["hidden"]
    assert measured.norm[0] == pytest.approx(flow.prediction.norm[0], rel=1e-9)
    assert all(a < b for a, b in zip(measured.norm[1:], flow.prediction.norm[1:], strict=True))


def test_powers_by_eigenvalues_are_powers_of_the_matrix() -> None:
    random = torch.Generator().manual_seed(1)
    matrix = torch.randn(9, 9, dtype=torch.float64, generator=random) / 3
    matrix[:, 0] = 0  # an eigenvalue that is exactly 0
    rows = torch.randn(4, 9, dtype=torch.float64, generator=random)
    eigen = EigenPowers(matrix)
    wanted = torch.stack([(rows @ torch.linalg.matrix_power(matrix, n)).norm(dim=1) for n in range(21)], dim=1)
    torch.testing.assert_close(eigen.norms(rows, 20), wanted, rtol=1e-9, atol=0)
    largest = np.abs(np.linalg.eigvals(matrix.numpy())).max()
    assert eigen.spectral_radius == pytest.approx(largest)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def backpropagated(model: Any, data: Batch, row: int) -> tuple[Array, Array]:
    """Norms of ∂J_i/∂h_j and ∂J_i/∂c_j of an LSTM without attention, [i, j], by the chain rule written out."""
    assert data.target_in is not None and data.target_out is not None and data.target_lengths is not None
    u, w, *biases = (part.detach().numpy() for part in model.decoder.layers[0].weights())
    output, bias = model.output.weight.detach().numpy(), model.output.bias.detach().numpy()
    steps = int(data.target_lengths[row])
    inputs = model.target_embedding.weight.detach().numpy()[data.target_in[row, :steps].numpy()]
    h, c = (part[row, 0].detach().numpy() for part in model.start(data)[1]["cells"])
    gates, cells, hiddens = [], [c], []
    for x in inputs:
        i, f, n, o = np.split(w @ h + u @ x + sum(biases), 4)
        i, f, n, o = sigmoid(i), sigmoid(f), np.tanh(n), sigmoid(o)
        c = f * c + i * n
        h = o * np.tanh(c)
        gates.append((i, f, n, o))
        cells.append(c)
        hiddens.append(h)
    by_hidden, by_cell = np.zeros((2, steps, steps))
    for step in range(steps):
        p = np.exp(output @ hiddens[step] + bias)
        p /= p.sum()
        p[data.target_out[row, step]] -= 1
        dh, dc = p @ output, np.zeros(WIDTH)  # dc: what arrives from the cell after this one
        for j in range(step, -1, -1):
            i, f, n, o = gates[j]
            tanh = np.tanh(cells[j + 1])
            dc = dc + dh * o * (1 - tanh**2)
            by_hidden[step, j], by_cell[step, j] = np.linalg.norm(dh), np.linalg.norm(dc)
            inner = (
                dc * n * i * (1 - i),
                dc * cells[j] * f * (1 - f),
                dc * i * (1 - n**2),
                dh * tanh * o * (1 - o),
            )
            dh, dc = np.concatenate(inner) @ w, dc * f
    return by_hidden, by_cell


@pytest.mark.parametrize("kernel", ["fused", "steps"])
def test_an_lstm_against_backpropagation_by_hand(kernel: str) -> None:
    model, data = build("lstm-last", kernel=kernel), batch()
    flow = measure_gradients(model, [data])
    wanted: tuple[dict[int, list[float]], dict[int, list[float]]] = ({}, {})
    for row in range(2):
        for norms, found in zip(wanted, backpropagated(model, data, row), strict=True):
            for (i, j), norm in np.ndenumerate(found):
                if j <= i:
                    norms.setdefault(i - j, []).append(float(norm))
    np.testing.assert_allclose(flow.curves["hidden"].norm, by_distance(wanted[0]), rtol=1e-9)
    np.testing.assert_allclose(flow.curves["cell"].norm, by_distance(wanted[1]), rtol=1e-9)
    assert flow.curves["hidden"].count == [len(wanted[0][distance]) for distance in range(6)]


class Push:
    """Adds a small vector to the hidden state of one step, on all ways out of it."""

    def __init__(self, model: Any, step: int) -> None:
        self.layer, self.step = model.decoder.layers[0], step

    def __call__(self, model: Any, data: Batch, vector: torch.Tensor) -> torch.Tensor:
        calls = 0

        def push(module: Any, inputs: Any, result: Any) -> Any:
            nonlocal calls
            states, (hidden, *cell) = result
            calls += 1
            if calls - 1 != self.step:
                return result
            return states + vector, (hidden + vector, *cell)

        handle = self.layer.register_forward_hook(push)
        try:
            return losses(model, data)
        finally:
            handle.remove()


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "rnn-last", "activation": "relu"},
        {"name": "gru-additive"},
        {"name": "lstm-additive-feed"},
        {"name": "lstm-bilinear", "input_feeding": True, "combine": "concat"},
        {"name": "lstm-dot", "query": "previous", "coverage": True, "score": "additive"},
    ],
    ids=lambda fields: str(fields["name"]),
)
@torch.no_grad()
def test_whatever_feeds_back_against_differences(fields: dict[str, Any]) -> None:
    data = batch()
    flow = measure_gradients(build(**fields), [data])
    model, small = build(**{**fields, "kernel": "steps"}), 1e-5
    norms: dict[int, list[float]] = {}
    for j in range(6):
        push = Push(model, j)
        columns = []
        for vector in torch.eye(WIDTH, dtype=torch.float64) * small:
            columns.append((push(model, data, vector) - push(model, data, -vector)) / (2 * small))
        jacobian = torch.stack(columns, dim=-1)  # (B, T, D): ∂J_i/∂h_j of every row and i
        for row, i in data.target_mask.nonzero().tolist():
            if i >= j:
                norms.setdefault(i - j, []).append(float(jacobian[row, i].norm()))
    np.testing.assert_allclose(flow.curves["hidden"].norm, by_distance(norms), rtol=1e-5, atol=1e-9)


class PushEncoder:
    """Adds a small vector to the state at one source position, in every layer of one direction."""

    def __init__(self, layer: Any, step: int) -> None:
        self.layer, self.step = layer, step

    def __call__(self, model: Any, data: Batch, vector: torch.Tensor) -> torch.Tensor:
        cell, calls = self.layer.cell, 0

        class Pushed(type(cell)):  # type: ignore[misc]
            def step(self, x: Any, state: Any, weights: Any) -> Any:
                nonlocal calls
                hidden, *others = cell.step(x, state, weights)
                calls += 1
                return (hidden + vector if calls - 1 == push.step else hidden, *others)

        push = self
        self.layer.cell = Pushed(cell.name, cell.activation)
        try:
            return losses(model, data)
        finally:
            self.layer.cell = cell


@pytest.mark.parametrize("name", ["rnn-notes", "lstm-additive", "gru-last"])
@torch.no_grad()
def test_encoder_states_against_differences(name: str) -> None:
    data, small = batch(), 1e-5
    flow = measure_gradients(build(name), [data])
    model = build(name)
    squares: dict[tuple[int, int, int], float] = {}  # by row, target step and source position
    readers = [(layer, False) for layer in model.encoder.forwards]
    for layer, is_backward in readers + [(layer, True) for layer in model.encoder.backwards]:
        for step in range(data.source.shape[1]):
            push = PushEncoder(layer, step)
            for vector in torch.eye(layer.width, dtype=torch.float64) * small:
                column = (push(model, data, vector) - push(model, data, -vector)) / (2 * small)  # (B, T)
                for row, i in data.target_mask.nonzero().tolist():
                    length = int(data.source_lengths[row])
                    position = length - 1 - step if is_backward else step
                    if step < length:
                        key = row, i, length - 1 - position
                        squares[key] = squares.get(key, 0.0) + float(column[row, i]) ** 2
    norms: dict[int, list[float]] = {}
    for (_, _, distance), square in squares.items():
        norms.setdefault(distance, []).append(square**0.5)
    np.testing.assert_allclose(flow.curves["encoder"].norm, by_distance(norms), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["transformer", "lstm-bilinear"])
def test_inputs_against_the_gradient_of_the_embedding_matrix(name: str) -> None:
    """No id stands twice in a row, so the gradient of its vector in the matrix is that of its position."""
    heads = {"heads": 2, "ffn": 8} if name == "transformer" else {}
    model, data = build(name, **heads), batch()
    assert data.target_in is not None
    flow = measure_gradients(model, [data])
    by_target: dict[int, list[float]] = {}
    by_source: dict[int, list[float]] = {}
    for row, i in data.target_mask.nonzero().tolist():
        matrices = (model.source_embedding.weight, model.target_embedding.weight)
        source, target = torch.autograd.grad(losses(model, data)[row, i], matrices)
        for j in range(i + 1):
            by_target.setdefault(i - j, []).append(float(target[data.target_in[row, j]].norm()))
        length = int(data.source_lengths[row])
        for j in range(length):
            by_source.setdefault(length - 1 - j, []).append(float(source[data.source[row, j]].norm()))
    for curve, wanted in ((flow.curves["target"], by_target), (flow.curves["source"], by_source)):
        assert isinstance(curve, Curve)
        np.testing.assert_allclose(curve.norm, by_distance(wanted), rtol=1e-9)
