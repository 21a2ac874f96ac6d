"""Tokenizer options and invalid values."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair


def test_both_sides_share_one_model_if_they_have_the_same_kind() -> None:
    assert TextConfig().is_joint
    assert not TextConfig(tokenizer="char", target_tokenizer="word").is_joint
    assert not TextConfig(joint=False).is_joint


def test_the_target_kind_defaults_to_the_source_kind() -> None:
    assert TextConfig(tokenizer="bpe").kinds == ("bpe", "bpe")
    assert TextConfig(tokenizer="char", target_tokenizer="word").kinds == ("char", "word")


def test_with_frames_the_target_kind_defaults_to_unigram() -> None:
    assert TextConfig(tokenizer="frames").kinds == ("frames", "unigram")
    assert TextConfig(tokenizer="frames", target_tokenizer="char").kinds == ("frames", "char")
    assert not TextConfig(tokenizer="frames").is_joint


def test_with_feature_files_the_tokenizer_option_applies_to_the_target() -> None:
    assert TextConfig(tokenizer="char").for_frames().kinds == ("frames", "char")
    assert TextConfig(tokenizer="char", target_tokenizer="word").for_frames().kinds == ("frames", "word")
    with pytest.raises(SeqloomError, match="got frames for the source and char for the target"):
        TextConfig(tokenizer="char", joint=True).for_frames()


def test_a_joint_model_of_two_kinds_is_rejected() -> None:
    with pytest.raises(ValidationError, match="same tokenizer on both sides, got char for the source and word"):
        TextConfig(tokenizer="char", target_tokenizer="word", joint=True)


@pytest.mark.parametrize("tag", ["", "<a b>", "a\tb", "<▁>"])
def test_a_tag_must_not_contain_spaces(tag: str) -> None:
    with pytest.raises(ValidationError, match="a tag must not be empty or contain spaces"):
        TextConfig(tags=(tag,))


@pytest.mark.parametrize("tag", ["<s>", "</s>", "<pad>", "<unk>", "<0xE2>"])
def test_reserved_names_are_rejected_as_tags(tag: str) -> None:
    with pytest.raises(ValidationError, match=f"the tag '{tag}' is a reserved name"):
        TextConfig(tags=(tag,))


def test_duplicate_tags_are_removed() -> None:
    assert TextConfig(tags=("<b>", "<a>", "<b>")).tags == ("<b>", "<a>")


def test_a_vocabulary_below_16_is_rejected() -> None:
    with pytest.raises(ValidationError, match="vocab_size"):
        TextConfig(vocab_size=15)


def test_the_code_preset_sets_defaults_and_explicit_options_override_it() -> None:
    code = TextConfig.checked({"preset": "code"}, "text")
    assert (code.normalize, code.collapse_spaces, code.byte_fallback) == ("none", False, True)
    assert TextConfig.checked({"preset": "code", "normalize": "nfc"}, "text").normalize == "nfc"
    assert TextConfig.checked(code.model_dump(), "text") == code
    for unknown in ("prose", 3, ["code"]):
        with pytest.raises(SeqloomError, match=r"text\.preset"):
            TextConfig.checked({"preset": unknown}, "text")


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_code_round_trips_unchanged(kind: str) -> None:
    config = TextConfig.checked({"preset": "code", "tokenizer": kind, "vocab_size": 400}, "text")
    code = [
        "    if x:\n        return 1\n",
        "\tfor i in y:\n\t\tpass",
        "a,  b\r\n\n  c ",
        "   ",
        "\n",
        "e\u0301 \ufb01",
    ]
    tokenizer = TokenizerPair.train(config, lambda: [(text, text) for text in code]).target
    for text in (*code, "        deeper:\n            new\n\t\tz  "):
        assert tokenizer.decode(tokenizer.encode(text)) == text
