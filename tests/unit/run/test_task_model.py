"""Models of tasks, with the encoder of another model."""

from __future__ import annotations

from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.registry import architectures
from seqloom.run.config import from_options, option_tree
from seqloom.run.task_model import with_task


def _model(task: str, **model: Any) -> dict[str, Any]:
    values = {f"model.{name}": value for name, value in model.items()}
    composed = from_options(with_task(option_tree(None, values), task))
    return composed.model.model_dump()


@pytest.mark.parametrize("task", ["tag", "classify", "predict", "continue", "fill"])
def test_a_task_has_a_model(task: str) -> None:
    assert architectures()[_model(task)["name"]].task.name == task


def test_translation_leaves_the_choice_to_the_planner() -> None:
    assert with_task({"model": {"size": "tiny"}}, "translate") == {"model": {"size": "tiny"}}


@pytest.mark.parametrize(
    ("task", "given", "expected"),
    [
        ("classify", {"name": "transformer-alibi"}, {"name": "transformer-classifier", "positions": "alibi"}),
        ("classify", {"name": "gru-additive"}, {"name": "bilstm-classifier", "cell": "gru"}),
        (
            "classify",
            {"name": "rnn-notes"},
            {"name": "bilstm-classifier", "cell": "rnn", "direction": "forward"},
        ),
        ("classify", {"name": "lm", "pooling": "last"}, {"name": "transformer-classifier", "pooling": "last"}),
        ("tag", {"name": "transformer", "layers": 3}, {"name": "transformer-tagger", "layers": 3}),
        ("predict", {"name": "gru-last"}, {"name": "lstm-vectors", "cell": "gru", "context": "last"}),
        ("continue", {"name": "gru-last"}, {"cell": "gru"}),
        (
            "classify",
            {"name": "bilstm-classifier", "cell": "gru"},
            {"name": "bilstm-classifier", "cell": "gru"},
        ),
        ("classify", {"name": "transformer-alibi", "positions": "none"}, {"positions": "none"}),
    ],
)
def test_the_encoder_of_a_model_serves_another_task(
    task: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = _model(task, **given)
    assert {name: found[name] for name in expected} == expected
    assert architectures()[found["name"]].task.name == task


def test_long_attention_of_an_encoder_is_kept() -> None:
    assert _model("classify", name="transformer-bigbird")["encoder"]["attention"] == "bigbird"


def test_every_encoder_can_classify() -> None:
    for name in architectures(fitted=False).keys() - {"transformer-syntax"}:
        assert architectures()[_model("classify", name=name)["name"]].task.name == "classify"
    with pytest.raises(SeqloomError, match="reads no dependency trees"):
        _model("classify", name="transformer-syntax")


@pytest.mark.parametrize(
    ("task", "name", "message"), [("clasify", "lm", "classify"), ("tag", "phrase", "no layers")]
)
def test_an_impossible_task(task: str, name: str, message: str) -> None:
    with pytest.raises(SeqloomError) as error:
        with_task({"model": {"name": name}}, task)
    assert message in str(error.value)
