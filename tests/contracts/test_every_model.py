"""Contract of every architecture, for all tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from seqloom.run.build import build_with_weights
from seqloom.training.checkpoint import load_weights, weights_of
from seqloom.training.loss import LossModule
from seqloom.types import PAD
from support.random_state import random_state

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}


def test_forward_is_the_output_layer_over_the_hidden_vectors(any_case: Any) -> None:
    model, batch = any_case.build(), any_case.batch()
    assert_close(model(batch), model.output(model.hidden(batch)), **EXACT)


def test_evaluation_is_deterministic_and_training_with_dropout_is_not(any_case: Any) -> None:
    dropout = any_case.known(dropout=0.3)
    model, batch = any_case.build(**dropout), any_case.batch()
    quiet = model(batch)
    assert torch.equal(model(batch), quiet)
    if not dropout:
        return  # the next test checks that training makes no difference
    model.train()
    first = model(batch)
    assert not torch.allclose(first, quiet)
    assert not torch.allclose(model(batch), first)


def test_training_without_dropout_is_evaluation(any_case: Any) -> None:
    model, batch = any_case.build(**any_case.known(dropout=0.0)), any_case.batch()
    quiet = model(batch)
    assert_close(model.train()(batch), quiet, **EXACT)


def test_the_gradient_reaches_every_parameter(any_case: Any) -> None:
    model = any_case.build(**any_case.known(dropout=0.0)).train()
    LossModule(model, 0.1, "float32")(any_case.batch()).total.backward()
    unreached = [
        name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()
    ]
    assert unreached == []


def test_padding_gets_no_gradient(any_case: Any) -> None:
    model = any_case.build(**any_case.known(dropout=0.0, tie="none")).train()
    LossModule(model, 0.1, "float32")(any_case.batch()).total.backward()
    for side in ("source_embedding", "target_embedding"):
        embedding = getattr(model, side, None)
        if isinstance(embedding, torch.nn.Embedding):  # frames have no embedding of padding
            assert embedding.weight.grad is not None and not embedding.weight.grad[PAD].any()


def test_a_saved_and_loaded_model_gives_the_same_outputs(any_case: Any, tmp_path: Path) -> None:
    saved, loaded, batch = any_case.build(seed=1), any_case.build(seed=2), any_case.batch()
    assert not torch.allclose(saved(batch), loaded(batch))
    save_file(weights_of(saved), tmp_path / "model.safetensors")
    load_weights(loaded, tmp_path / "model.safetensors")
    assert torch.equal(saved(batch), loaded(batch))


def test_loading_restores_everything_and_draws_no_random_numbers(any_case: Any, tmp_path: Path) -> None:
    saved, batch = any_case.build(), any_case.batch()
    save_file(weights_of(saved), tmp_path / "model.safetensors")
    before = random_state()
    loaded = build_with_weights(any_case.construct, tmp_path / "model.safetensors")
    assert random_state() == before
    assert torch.equal(saved(batch), loaded(batch))
    assert [(name, weight.dtype, weight.requires_grad) for name, weight in loaded.named_parameters()] == [
        (name, weight.dtype, weight.requires_grad) for name, weight in saved.named_parameters()
    ]


def test_initial_weights_depend_on_the_seed_only(any_case: Any) -> None:
    batch = any_case.batch()
    assert torch.equal(any_case.build(seed=5)(batch), any_case.build(seed=5)(batch))


@pytest.mark.parametrize("field", ["widht", "learning_rate"])
def test_the_settings_reject_unknown_fields(any_case: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        any_case.build(**{field: 3})
