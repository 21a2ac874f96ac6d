"""Our stacks of recurrent layers against torch's packed ones, and residual ones against a loop of torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.nn.cells import Cell, CellName, Kernel, RecurrentLayer
from seqloom.nn.recurrent import Direction, RecurrentEncoder, RecurrentStack
from seqloom.registry import architecture
from seqloom.types import BOS, Vocabularies, lengths_to_mask

WIDTH = 6
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}
LENGTHS = torch.tensor([5, 2, 7, 1])
MASK = lengths_to_mask(LENGTHS, 7)
KINDS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")

over_cells = pytest.mark.parametrize("cell", list(KINDS))
over_kernels = pytest.mark.parametrize("kernel", ["fused", "steps"])
over_directions = pytest.mark.parametrize("direction", ["both", "forward"])


pytestmark = pytest.mark.usefixtures("double_precision")


def _encoder(cell: Cell, layers: int, direction: Direction, *, residual: bool = False) -> RecurrentEncoder:
    encoder = RecurrentEncoder(cell, WIDTH, layers, direction, residual=residual, dropout=0.0, cells=True)
    for weight in encoder.parameters():
        nn.init.normal_(weight, std=0.5)
    return encoder


def _pairs(theirs: nn.RNNBase, ours: RecurrentEncoder) -> Iterator[tuple[Tensor, Tensor]]:
    """Each of torch's parameters and ours in its place."""
    for layers, suffix in ((ours.forwards, ""), (ours.backwards, "_reverse")):
        for number, layer in enumerate(layers):
            assert isinstance(layer, RecurrentLayer)
            for kind, weight in zip(PARAMETERS, layer.weights(), strict=True):
                yield theirs.get_parameter(f"{kind}_l{number}{suffix}"), weight


@over_kernels
@over_directions
@pytest.mark.parametrize("layers", [1, 2, 3])
@over_cells
def test_the_encoder_is_torchs_on_packed_sequences(
    cell: CellName, layers: int, direction: Direction, kernel: Kernel
) -> None:
    ours = _encoder(Cell(cell, kernel=kernel), layers, direction)
    ways = 2 if direction == "both" else 1
    theirs = KINDS[cell](WIDTH, WIDTH // ways, layers, batch_first=True, bidirectional=ways == 2)
    for their, our in _pairs(theirs, ours):
        their.data.copy_(our.data)
    x = torch.randn(len(LENGTHS), 7, WIDTH, requires_grad=True)
    states, lasts = ours(x, LENGTHS)
    packed, hidden = theirs(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    # torch: (layers x directions, B, D/2); ours: (B, layers, D), both halves where they ended.
    parts = hidden if cell == "lstm" else (hidden,)
    parts = tuple(part.view(layers, ways, len(LENGTHS), -1).permute(2, 0, 1, 3).flatten(2) for part in parts)
    assert_close(states[MASK], expected[MASK], **EXACT)
    assert_close(lasts, parts, **EXACT)
    upstream, upstream_last = torch.randn_like(states), torch.randn_like(lasts[-1])
    leaves = [(x, x), *_pairs(theirs, ours)]
    given = torch.autograd.grad(
        (states * upstream)[MASK].sum() + (lasts[-1] * upstream_last).sum(), [our for _, our in leaves]
    )
    wanted = torch.autograd.grad(
        (expected * upstream)[MASK].sum() + (parts[-1] * upstream_last).sum(), [their for their, _ in leaves]
    )
    assert_close(given, wanted, **EXACT)


def _torch_layer(layer: nn.Module) -> nn.RNNBase:
    assert isinstance(layer, RecurrentLayer)
    module = KINDS[layer.cell.name](layer.fused.input_size, layer.width, batch_first=True)
    module.load_state_dict(layer.fused.state_dict())
    return module


@over_kernels
@over_directions
@pytest.mark.parametrize("residual", [False, True])
@over_cells
def test_the_encoder_is_a_loop_over_sentences_layers_and_directions(
    cell: CellName, residual: bool, direction: Direction, kernel: Kernel
) -> None:
    encoder = _encoder(Cell(cell, kernel=kernel), 3, direction, residual=residual)
    x = torch.randn(len(LENGTHS), 7, WIDTH)
    states, lasts = encoder(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        level = x[row : row + 1, :length]
        for number in range(3):
            out, _ = _torch_layer(encoder.forwards[number])(level)
            last = out[:, -1]
            if direction == "both":
                back = _torch_layer(encoder.backwards[number])(level.flip(1))[0].flip(1)
                out, last = torch.cat((out, back), dim=-1), torch.cat((last, back[:, 0]), dim=-1)
            assert_close(lasts[0][row, number], last[0], **EXACT)  # of the cell itself, without what passes by
            level = level + out if residual and number > 0 else out
        assert_close(states[row, :length], level[0], **EXACT)


@over_kernels
@over_directions
@over_cells
def test_padding_changes_nothing(cell: CellName, direction: Direction, kernel: Kernel) -> None:
    encoder = _encoder(Cell(cell, kernel=kernel), 2, direction, residual=True)
    x = torch.randn(len(LENGTHS), 7, WIDTH)
    states, lasts = encoder(x, LENGTHS)
    junk = torch.full((len(LENGTHS), 4, WIDTH), -7.0)
    wider = torch.cat((torch.where(MASK.unsqueeze(-1), x, 9.0), junk), dim=1)
    other, other_lasts = encoder(wider, LENGTHS)
    assert_close(other[:, :7][MASK], states[MASK], **EXACT)
    assert_close(other_lasts, lasts, **EXACT)


@over_kernels
@pytest.mark.parametrize("residual", [False, True])
@over_cells
def test_the_stack_is_a_loop_over_layers_and_can_be_taken_up_anywhere(
    cell: CellName, residual: bool, kernel: Kernel
) -> None:
    layers, inputs = 3, 5
    stack = RecurrentStack(Cell(cell, kernel=kernel), inputs, WIDTH, layers, residual=residual, dropout=0.0)
    x, start = torch.randn(4, 6, inputs), tuple(torch.randn(4, layers, WIDTH) for _ in range(Cell(cell).parts))
    level, lasts = x, []
    for number, layer in enumerate(stack.layers):
        before = tuple(part[None, :, number].contiguous() for part in start)
        out, after = _torch_layer(layer)(level, before if cell == "lstm" else before[0])
        lasts.append([part[0] for part in (after if cell == "lstm" else (after,))])
        level = level + out if residual and number > 0 else out
    first, state = stack(x[:, :2], start)
    second, state = stack(x[:, 2:], state)
    assert_close(torch.cat((first, second), dim=1), level, **EXACT)
    assert_close(state, tuple(torch.stack(parts, dim=1) for parts in zip(*lasts, strict=True)), **EXACT)


@over_cells
def test_a_stack_without_residuals_is_torchs_of_many_layers(cell: CellName) -> None:
    layers = 3
    ours = RecurrentStack(Cell(cell), WIDTH, WIDTH, layers, residual=False, dropout=0.0)
    theirs = KINDS[cell](WIDTH, WIDTH, layers, batch_first=True)
    for number, layer in enumerate(ours.layers):
        assert isinstance(layer, RecurrentLayer)
        for kind, weight in zip(PARAMETERS, layer.weights(), strict=True):
            theirs.get_parameter(f"{kind}_l{number}").data.copy_(weight.data)
    x, start = torch.randn(4, 6, WIDTH), tuple(torch.randn(4, layers, WIDTH) for _ in range(Cell(cell).parts))
    before = tuple(part.transpose(0, 1).contiguous() for part in start)
    expected, after = theirs(x, before if cell == "lstm" else before[0])
    given, state = ours(x, start)
    assert_close(given, expected, **EXACT)
    assert_close(
        state, tuple(part.transpose(0, 1) for part in (after if cell == "lstm" else (after,))), **EXACT
    )


def _numpy_rnn(layer: nn.Module, inputs: Sequence[Any], state: Any) -> list[Any]:
    """h_i = σ(W h_{i-1} + U x_i + b), with σ = sigmoid, for all i."""
    assert isinstance(layer, RecurrentLayer)
    U, W, b, b2 = (weight.detach().numpy() for weight in layer.weights())
    states = []
    for x in inputs:
        state = 1 / (1 + np.exp(-(W @ state + U @ x + b + b2)))
        states.append(state)
    return states


def test_rnn_notes_is_two_networks_and_a_copied_state() -> None:
    """P(y | x) = Π softmax(V s_t + c), where s_0 is the last encoder state itself."""
    entry, sources, targets = architecture("rnn-notes"), [[4, 5, 6], [7]], [[8, 9], [5, 4, 10]]
    fields = {"name": "rnn-notes", "size": "base", "width": WIDTH, "activation": "sigmoid", "tie": "none"}
    model: Any = entry.build(
        entry.settings.model_validate(entry.overrides | fields), Vocabularies(11, 12, False)
    )
    model.double().eval()
    x, y = (table.weight.detach().numpy() for table in (model.source_embedding, model.target_embedding))
    V, c = model.output.weight.detach().numpy(), model.output.bias.detach().numpy()
    (encoder,), (decoder,) = model.encoder.forwards, model.decoder.layers
    assert not model.encoder.backwards and not model.bridge
    batch = collate_ids(sources, targets, range(2))
    logits = model(batch).detach().numpy()
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        ids = batch.source[row, : int(batch.source_lengths[row])].tolist()
        assert ids[: len(source)] == source
        last = _numpy_rnn(encoder, [x[id] for id in ids], np.zeros(WIDTH))[-1]
        states = _numpy_rnn(decoder, [y[id] for id in (BOS, *target)], last)
        assert logits[row, : len(states)] == pytest.approx(np.stack([V @ s + c for s in states]), abs=1e-12)
