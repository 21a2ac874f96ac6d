"""Exports accept only values on their positive lists: anything added to the models later is refused."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field

from seqloom.export.ctranslate2 import convert as ctranslate2
from seqloom.export.marian import export as marian_export
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.nn.blocks import Activation, NormName
from seqloom.nn.positions import PositionName
from seqloom.registry import _ARCHITECTURES, Architecture
from seqloom.settings import ModelSettings

SHAPE = {"size": "tiny", "norm_place": "after"}  # supported by both formats


@pytest.fixture(params=[ctranslate2, marian_export], ids=["ctranslate2", "hf-marian"])
def format(request: pytest.FixtureRequest) -> Any:
    return request.param


def settings_with(**changed: Any) -> TransformerSettings:
    return TransformerSettings.checked({**SHAPE, **changed}, "model")


class Extended(TransformerSettings):
    """Options of a Transformer after a new value of each, and a new option, have been added."""

    positions: PositionName | Literal["spiral"] = "sinusoidal"  # type: ignore[assignment]
    norm: NormName | Literal["scale"] = "layer"  # type: ignore[assignment]
    activation: Activation | Literal["mish"] = "relu"  # type: ignore[assignment]
    norm_place: Literal["before", "after", "none", "between"] = "after"  # type: ignore[assignment]
    tie: Literal["auto", "all", "target", "none", "source"] = "auto"  # type: ignore[assignment]


class WithOption(TransformerSettings):
    query_norm: bool = Field(False, description="a new option")


@pytest.fixture
def architecture(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Register an architecture for one test."""

    def add(name: str, settings: type[ModelSettings], build: Any = Transformer) -> None:
        monkeypatch.setitem(_ARCHITECTURES, name, Architecture(name, "", "", settings, build))

    return add


def test_a_shape_that_both_support(format: Any) -> None:
    assert format.obstacle(settings_with()) is None


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("positions", "spiral"),
        ("norm", "scale"),
        ("activation", "mish"),
        ("norm_place", "between"),
        ("tie", "source"),
    ],
)
def test_a_new_value_is_refused(format: Any, architecture: Any, option: str, value: str) -> None:
    architecture("extended", Extended)
    assert format.obstacle(Extended.checked({**SHAPE, "name": "extended"}, "model")) is None
    reason = format.obstacle(Extended.checked({**SHAPE, "name": "extended", option: value}, "model"))
    assert reason is not None and f"model.{option}={value}" in reason


def test_a_new_option_is_refused_until_it_is_listed(format: Any, architecture: Any) -> None:
    architecture("with-option", WithOption)
    for value in (False, True):
        settings = WithOption.checked({**SHAPE, "name": "with-option", "query_norm": value}, "model")
        assert "model.query_norm" in (format.obstacle(settings) or "")


def test_another_model_with_the_same_options_is_refused(format: Any, architecture: Any) -> None:
    class Changed(Transformer):
        """Model that computes something else."""

    architecture("changed", TransformerSettings, Changed)
    assert "model.name=changed" in (format.obstacle(settings_with(name="changed")) or "")


def test_tags_without_position_are_refused(format: Any) -> None:
    assert "model.tag_positions=false" in (format.obstacle(settings_with(tag_positions=False)) or "")


def test_a_nested_option_is_checked(format: Any) -> None:
    assert "model.encoder.attention=window" in format.obstacle(settings_with(encoder={"attention": "window"}))
