"""Data options."""

import pytest
from pydantic import ValidationError

from seqloom.data.config import DataConfig


def test_a_plain_string_is_one_file() -> None:
    config = DataConfig.model_validate({"train": "a.tsv", "valid": ["b.tsv", "c.tsv"]})
    assert config.train == ("a.tsv",)
    assert config.valid == ("b.tsv", "c.tsv")


def test_has_reports_the_parts_with_files() -> None:
    assert not DataConfig().has("train")
    assert DataConfig(source="a", target="b").has("train")
    assert not DataConfig(train=("a",)).has("valid")
    assert DataConfig(train=("a",), valid_source="a", valid_target="b").has("valid")


@pytest.mark.parametrize(
    "given, message",
    [
        ({"source": "a"}, "source and target must be given together"),
        ({"valid_target": "a"}, "valid_source and valid_target must be given together"),
        ({"train": "a", "source": "b", "target": "c"}, "give either train, or source and target"),
        ({"format": "xml"}, "'auto'"),
        ({"valid_share": 1.0}, "less than 1"),
        ({"max_length": 0}, "greater than or equal to 1"),
        ({"languages": "english"}, "data.languages: 'english' is not a pair of languages"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_invalid_options_are_rejected(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataConfig.model_validate(given)


def test_languages_are_stored_as_two_codes() -> None:
    config = DataConfig.model_validate({"languages": "en_GB,de"})
    assert config.languages == ("en-GB", "de")
    assert config.model_dump(mode="json")["languages"] == ["en-GB", "de"]
    assert DataConfig.model_validate(config.model_dump(mode="json")) == config
