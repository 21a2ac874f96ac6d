"""Recurrent language models against torch.nn.RNN, LSTM and GRU over the same row of tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.decode.scoring import forced_log_probs
from seqloom.inspect.gradients import measure_gradients
from seqloom.models.recurrent_language import RecurrentLanguageModel
from seqloom.types import BOS, EOS, Vocabularies
from support.step_models import random_model

WIDTH = 8
SHARED, SEPARATE = Vocabularies(20, 20, True), Vocabularies(20, 17, False)
SOURCES, TARGETS = [[4, 5, 6], [], [7]], [[8, 9], [10, 11, 12, 13], []]
KINDS = {"rnn-lm": nn.RNN, "lstm-lm": nn.LSTM, "gru-lm": nn.GRU}
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}


def build(name: str, vocabularies: Vocabularies = SHARED, **fields: Any) -> RecurrentLanguageModel:
    model: RecurrentLanguageModel = random_model(name, vocabularies, 1, width=WIDTH, **fields)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.4)
    return model


def torch_stack(model: RecurrentLanguageModel, name: str, layers: int) -> nn.RNNBase:
    """A stack of torch with the weights of the model."""
    stack = KINDS[name](WIDTH, WIDTH, layers, batch_first=True).double()
    for number, layer in enumerate(model.decoder.layers):
        for kind, weight in layer.fused.named_parameters():
            stack.get_parameter(kind.replace("_l0", f"_l{number}")).data.copy_(weight.data)
    return stack


def one_by_one(
    model: RecurrentLanguageModel, name: str, layers: int, source: list[int], target: list[int]
) -> Tensor:
    """Logits of one pair, (T, V): the stack reads the source, its end, and the target."""
    first = torch.tensor([*source, EOS])
    row = torch.cat((model.source_embedding(first), model.target_embedding(torch.tensor([BOS, *target]))))
    states, _ = torch_stack(model, name, layers)(row.unsqueeze(0))
    return states[0, len(first) :] @ model.output.weight.T + model.output.bias


@pytest.mark.parametrize("vocabularies", [SHARED, SEPARATE], ids=["shared", "separate"])
@pytest.mark.parametrize("kernel", ["fused", "steps"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_it_is_a_stack_of_torch_over_source_and_target(
    name: str, layers: int, kernel: str, vocabularies: Vocabularies
) -> None:
    model = build(name, vocabularies, layers=layers, kernel=kernel)
    batch = collate_ids(SOURCES, TARGETS, range(3))
    logits, log_probs = model(batch), forced_log_probs(model, batch).tolist()
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected = one_by_one(model, name, layers, source, target)
        assert_close(logits[row, : len(target) + 1], expected, **EXACT)
        scores = expected.log_softmax(-1)[range(len(target) + 1), [*target, EOS]].tolist()
        assert log_probs[: len(scores)] == pytest.approx(scores, abs=1e-12)
        del log_probs[: len(scores)]
    assert_close(model.output(model.unroll(batch)[0]), logits, **EXACT)


def test_gradients_reach_back_over_the_target_alone() -> None:
    """The layers also read the source, whose states are not those of the target."""
    model = build("rnn-lm", layers=1, activation="identity")
    batch = collate_ids([[]], [[5, 6, 7, 8]], range(1))
    flow = measure_gradients(model, [batch], max_distance=4)
    # σ(x) = x: the gradient after 4 steps is that of the last state times W^4.
    matrix, hidden = model.decoder.layers[0].weights().hidden, model.hidden(batch).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(-model.output(hidden[0, 4]).log_softmax(-1)[EOS], hidden)
    assert flow.curves["hidden"].norm[4] == pytest.approx(
        (gradient[0, 4] @ matrix.matrix_power(4)).norm().item()
    )
    assert len(flow.curves["hidden"].norm) == 5
