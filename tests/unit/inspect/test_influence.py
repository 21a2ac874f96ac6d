"""Influence, layers and interventions, compared with computations by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.inspect.labels import END
from seqloom.inspect.viewed_run import ViewedRun
from seqloom.inspect.views import document, document_text
from seqloom.models.base import AutoregressiveModel
from seqloom.models.transformer import Transformer
from seqloom.run.load import load_scorer
from seqloom.types import Batch
from support.commands import Command
from support.golden import GOLDEN
from support.runs import SharedRuns

RUN = GOLDEN / "fixtures" / "transformer"
TEXT = "the old cat hides the dog ."
TARGET = "le chat vieux ."


@pytest.fixture(scope="module")
def viewed() -> ViewedRun:
    return ViewedRun(RUN, device="cpu")


def _batch(viewed: ViewedRun, target: str) -> Batch:
    from seqloom.inspect.forced_text import forced_text

    return forced_text(viewed.opened(), TEXT, target).batch


def test_gradients_are_the_differences_of_the_output(viewed: ViewedRun) -> None:
    found = document(viewed, "influence", {"text": TEXT, "target": TARGET})
    (score,) = load_scorer(RUN, device="cpu").score([(TEXT, TARGET)])
    assert found["log_probs"] == pytest.approx(list(score.log_probs), abs=1e-4)
    assert found["left"] is None and found["target"][-1] == END
    model, batch = viewed.opened().model, _batch(viewed, TARGET)
    assert isinstance(model, Transformer) and batch.target_out is not None
    embedding = model.source_embedding
    step = 1e-3

    def log_prob(scale: float) -> float:
        """log P of the second token if the embedding of the third source token is scaled."""

        def scaled(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], result: torch.Tensor) -> object:
            if inputs[0] is not batch.source:
                return None
            result = result.clone()
            result[0, 2] *= scale
            return result

        hook = embedding.register_forward_hook(scaled)
        with torch.no_grad():
            row = model.output(model.hidden(batch)[0, 1]).double().log_softmax(-1)
        hook.remove()
        assert batch.target_out is not None
        return float(row[batch.target_out[0, 1]])

    expected = (log_prob(1 + step) - log_prob(1 - step)) / (2 * step)  # d log P(s · x) / ds at s = 1
    assert found["products"][1][2] == pytest.approx(expected, rel=0.02, abs=1e-3)


def test_the_vector_without_attention_is_measured(shared_runs: SharedRuns) -> None:
    viewed = ViewedRun(shared_runs.build("back") / "back", device="cpu")
    text = "A MAN IS RUNNING."
    found = document(viewed, "influence", {"text": text})
    model = viewed.opened().model
    assert isinstance(model, AutoregressiveModel)
    from seqloom.inspect.forced_text import forced_text

    batch = forced_text(viewed.opened(), text, None).batch
    embedding = next(one for one in model.modules() if isinstance(one, torch.nn.Embedding))
    with torch.no_grad():
        embedded = embedding(batch.source)

    def vector(given: torch.Tensor) -> torch.Tensor:
        hook = embedding.register_forward_hook(lambda _, inputs, result: given)
        cells = model.start(batch)[1]["cells"]
        hook.remove()
        return torch.cat([one.flatten() for one in cells])

    jacobian = torch.autograd.functional.jacobian(vector, embedded)[:, 0]  # (numbers, S, D)
    expected = jacobian.square().sum(dim=(0, 2)).sqrt().tolist()
    assert found["left"] == pytest.approx(expected, rel=1e-3)
    with pytest.raises(SeqloomError, match="no layers"):
        document(viewed, "layers", {"text": text})
    with pytest.raises(SeqloomError, match="cannot be changed"):
        document(viewed, "intervention", {"text": text})


def test_layers_are_those_computed_by_hand(viewed: ViewedRun) -> None:
    found = document(viewed, "layers", {"text": TEXT, "target": TARGET})
    model, batch = viewed.opened().model, _batch(viewed, TARGET)
    assert isinstance(model, Transformer) and batch.target_in is not None and batch.target_out is not None
    with torch.no_grad():
        source = model.encode(batch)
        state = model._embed_target(batch.target_in, torch.arange(batch.target_in.shape[1]))
        states = [state]
        for block in model.decoder:
            state = block(state, source, batch.source_mask)
            states.append(state)
        rows = [(model.decoder_norm(one) @ model.output.weight.T)[0].double() for one in states]
        if model.output.bias is not None:
            rows = [one + model.output.bias for one in rows]
    assert len(found["layers"]) == len(rows) == len(model.decoder) + 1
    for layer, row in zip(found["layers"], rows, strict=True):
        log_probs = row - row.logsumexp(-1, keepdim=True)
        own = [float(one[token]) for one, token in zip(log_probs, batch.target_out[0], strict=True)]
        assert layer["log_probs"] == pytest.approx(own, abs=1e-4)
        ranks = [int((one > value + 1e-9).sum()) + 1 for one, value in zip(log_probs, own, strict=True)]
        assert layer["ranks"] == ranks
    (score,) = load_scorer(RUN, device="cpu").score([(TEXT, TARGET)])
    assert found["layers"][-1]["log_probs"] == pytest.approx(list(score.log_probs), abs=1e-4)


def test_heads_are_switched_off_and_places_pinned(viewed: ViewedRun) -> None:
    free = document(viewed, "translation", {"text": TEXT})["hypotheses"][0]
    nothing = document(viewed, "intervention", {"text": TEXT})
    assert nothing["free"] == nothing["changed"] == free
    model = viewed.opened().model
    assert isinstance(model, Transformer)
    heads = model.decoder[0].cross.heads
    off = [(layer, head) for layer in range(len(model.decoder)) for head in range(heads)]
    blind = document(viewed, "intervention", {"text": TEXT, "off": off})
    other = document(viewed, "intervention", {"text": "a red house", "off": off, "beam": 3})
    same = document(viewed, "intervention", {"text": TEXT, "off": off, "beam": 3})
    assert other["changed"]["tokens"][0] == same["changed"]["tokens"][0]  # it does not see the source
    assert other["changed"]["log_probs"][0] == pytest.approx(same["changed"]["log_probs"][0], abs=1e-5)
    assert math.fsum(blind["changed"]["log_probs"]) < blind["free"]["log_prob"]
    pinned = document(viewed, "intervention", {"text": TEXT, "pins": [(0, 2)]})
    assert pinned["changed"]["log_probs"][0] != pytest.approx(free["log_probs"][0], abs=1e-6)
    assert document(viewed, "translation", {"text": TEXT})["hypotheses"][0] == free  # the model is as before
    for wrong in ({"off": [(9, 0)]}, {"off": [(0, 99)]}, {"pins": [(0, 99)]}):
        with pytest.raises(SeqloomError, match=r"no head|cannot be pinned"):
            document(viewed, "intervention", {"text": TEXT, **wrong})


def test_the_commands_print_the_documents(viewed: ViewedRun, command: Command, tmp_path: Path) -> None:
    for view, options, fields in (
        ("influence", ["--target", TARGET], {"target": TARGET}),
        ("layers", [], {}),
        ("intervention", ["--off", "1.2", "--pin", "1:3"], {"off": [(0, 1)], "pins": [(0, 2)]}),
    ):
        done = command("inspect", view, RUN, TEXT, *options, "--json", "--device", "cpu")
        assert done.out == document_text(document(viewed, view, {"text": TEXT, **fields}))
        assert command("inspect", view, RUN, TEXT, *options).code == 0
    wrong = command("inspect", "intervention", RUN, TEXT, "--off", "1")
    assert wrong.code == 2 and "--off 2.1" in wrong.err
