"""The options of the tokenizers and the values they refuse."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair


def test_both_sides_share_one_model_when_they_are_of_one_kind() -> None:
    assert TextConfig().is_joint
    assert not TextConfig(tokenizer="char", target_tokenizer="word").is_joint
    assert not TextConfig(joint=False).is_joint


def test_the_target_follows_the_source_unless_told() -> None:
    assert TextConfig(tokenizer="bpe").kinds == ("bpe", "bpe")
    assert TextConfig(tokenizer="char", target_tokenizer="word").kinds == ("char", "word")


def test_beside_frames_the_target_is_pieces_unless_told() -> None:
    assert TextConfig(tokenizer="frames").kinds == ("frames", "unigram")
    assert TextConfig(tokenizer="frames", target_tokenizer="char").kinds == ("frames", "char")
    assert not TextConfig(tokenizer="frames").is_joint


def test_where_sources_are_files_the_tokenizer_is_the_targets() -> None:
    assert TextConfig(tokenizer="char").of_frames().kinds == ("frames", "char")
    assert TextConfig(tokenizer="char", target_tokenizer="word").of_frames().kinds == ("frames", "word")
    with pytest.raises(SeqloomError, match="got frames for the source and char for the target"):
        TextConfig(tokenizer="char", joint=True).of_frames()


def test_a_joint_model_of_two_kinds_is_refused() -> None:
    with pytest.raises(ValidationError, match="same tokenizer on both sides, got char for the source and word"):
        TextConfig(tokenizer="char", target_tokenizer="word", joint=True)


@pytest.mark.parametrize("tag", ["", "<a b>", "a\tb", "<▁>"])
def test_a_tag_is_one_symbol(tag: str) -> None:
    with pytest.raises(ValidationError, match="a tag is a symbol without spaces"):
        TextConfig(tags=(tag,))


@pytest.mark.parametrize("tag", ["<s>", "</s>", "<pad>", "<unk>", "<0xE2>"])
def test_a_tag_has_no_reserved_name(tag: str) -> None:
    with pytest.raises(ValidationError, match=f"the tag '{tag}' has a name that the tokenizer keeps"):
        TextConfig(tags=(tag,))


def test_a_tag_given_twice_counts_once() -> None:
    assert TextConfig(tags=("<b>", "<a>", "<b>")).tags == ("<b>", "<a>")


def test_a_vocabulary_of_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="vocab_size"):
        TextConfig(vocab_size=15)


def test_the_preset_for_code_sets_defaults_and_given_options_win() -> None:
    code = TextConfig.checked({"preset": "code"}, "text")
    assert (code.normalize, code.collapse_spaces, code.byte_fallback) == ("none", False, True)
    assert TextConfig.checked({"preset": "code", "normalize": "nfc"}, "text").normalize == "nfc"
    assert TextConfig.checked(code.model_dump(), "text") == code
    for unknown in ("prose", 3, ["code"]):
        with pytest.raises(SeqloomError, match=r"text\.preset"):
            TextConfig.checked({"preset": unknown}, "text")


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_code_comes_back_as_it_was(kind: str) -> None:
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
