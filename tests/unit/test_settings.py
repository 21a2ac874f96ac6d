from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pydantic import Field, ValidationError

from seqloom.errors import SeqloomError
from seqloom.settings import ModelSettings, Settings


class _Section(Settings):
    rate: float = Field(default=0.5, lt=1)


class _Model(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 4, "layers": 1},
        "big": {"width": 8, "layers": 2},
    }
    name: str = "toy"
    width: int
    layers: int
    heads: int | None = None


def test_unknown_options_are_errors() -> None:
    with pytest.raises(ValidationError, match="ratte"):
        _Section.model_validate({"ratte": 1})


def test_values_are_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        _Section().rate = 1.0


def test_the_size_fills_the_fields_and_an_explicit_field_wins() -> None:
    assert _Model.model_validate({}).model_dump() == {
        "name": "toy",
        "size": "small",
        "width": 4,
        "layers": 1,
        "heads": None,
    }
    big = _Model.model_validate({"size": "big", "layers": 7})
    assert (big.width, big.layers) == (8, 7)


def test_a_field_that_is_none_is_a_field_not_given() -> None:
    assert _Model.model_validate({"size": "big", "width": None}).width == 8


def test_a_round_trip_of_the_settings() -> None:
    model = _Model.model_validate({"size": "big", "layers": 7})
    assert _Model.model_validate(model.model_dump()) == model


def test_an_unknown_size_lists_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="size must be one of small, big, got 'huge'"):
        _Model.model_validate({"size": "huge"})


def test_a_value_that_is_not_a_mapping_is_an_error() -> None:
    with pytest.raises(ValidationError):
        _Model.model_validate("big")


@pytest.mark.parametrize(
    "values, message, hint",
    [
        ({"ratte": 1}, "There is no option part.ratte (in a.yaml).", "did you mean part.rate?"),
        ({"rate": 3}, "part.rate in a.yaml: input should be less than 1, got 3.", ""),
    ],
)
def test_checked_options_fail_with_a_message(values: dict[str, Any], message: str, hint: str) -> None:
    assert _Section.checked({"rate": 0.25}, "part").rate == 0.25
    with pytest.raises(SeqloomError) as caught:
        _Section.checked(values, "part", "a.yaml")
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_checked_size_names_the_known_ones() -> None:
    with pytest.raises(SeqloomError, match=r"size must be one of small, big, got 'huge' \(in the options\)\."):
        _Model.checked({"size": "huge"}, "model")


class _Outer(Settings):
    part: _Section = Field(default=_Section())
    ratio: int = 1


@pytest.mark.parametrize(
    "values, message, hint",
    [
        (
            {"part": {"ratte": 1}},
            "There is no option whole.part.ratte (in a.yaml).",
            "did you mean whole.part.rate?",
        ),
        ({"part": {"x": 1}}, "There is no option whole.part.x (in a.yaml).", "choose from whole.part.rate"),
        ({"prat": {}}, "There is no option whole.prat (in a.yaml).", "did you mean whole.part?"),
        ({"part": {"rate": 3}}, "whole.part.rate in a.yaml: input should be less than 1, got 3.", ""),
        ({"part": 3}, "whole.part in a.yaml must be a section of options, got 3.", ""),
    ],
)
def test_options_of_a_section_inside_a_section(values: dict[str, Any], message: str, hint: str) -> None:
    assert _Outer.checked({"part": {"rate": 0.25}}, "whole").part.rate == 0.25
    assert _Outer.sections() == {"part": _Section}
    with pytest.raises(SeqloomError) as caught:
        _Outer.checked(values, "whole", "a.yaml")
    assert (caught.value.message, caught.value.hint) == (message, hint)
