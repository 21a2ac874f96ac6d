"""Joint and separate tokenizers, the training sample, and detected tags."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair

PAIRS = [("the cat sat", "die Katze saß"), ("a dog ran", "ein Hund lief")] * 5


def train(config: TextConfig, pairs: Iterable[tuple[str, str]] = PAIRS) -> TokenizerPair:
    return TokenizerPair.train(config, lambda: pairs)


def test_the_same_kind_gives_one_model_for_both_sides() -> None:
    pair = train(TextConfig(vocab_size=300))
    assert pair.joint
    assert pair.source is pair.target
    assert pair.target.decode(pair.source.encode("the Katze")) == "the Katze"


def test_different_kinds_give_two_models() -> None:
    pair = train(TextConfig(tokenizer="char", target_tokenizer="word", byte_fallback=False))
    assert not pair.joint
    assert pair.source.pieces(pair.source.encode("cat")) == ["c", "a", "t"]
    assert pair.target.pieces(pair.target.encode("Katze lief")) == ["Katze", "lief"]
    assert [note.partition(":")[0] for note in pair.notes] == ["source", "target"]


def test_joint_can_be_turned_off() -> None:
    pair = train(TextConfig(tokenizer="word", joint=False, byte_fallback=False))
    assert not pair.joint
    assert pair.source.decode(pair.source.encode("Katze")) == "⁇", "the source vocabulary has no target words"


@pytest.mark.parametrize("config", [TextConfig(), TextConfig(tokenizer="char", target_tokenizer="word")])
def test_a_loaded_pair_is_the_saved_one(config: TextConfig, tmp_path: Path) -> None:
    pair = train(config)
    pair.save(tmp_path / "tokenizer")
    loaded = TokenizerPair.load(tmp_path / "tokenizer")
    assert loaded.fingerprint == pair.fingerprint
    assert loaded.joint == pair.joint
    names = {path.stem for path in (tmp_path / "tokenizer").iterdir()}
    assert names == ({"joint"} if pair.joint else {"source", "target"})


def test_the_fingerprint_depends_on_both_sides() -> None:
    one, two = (train(TextConfig(tokenizer=kind, joint=False)) for kind in ("char", "word"))
    mixed = TokenizerPair(one.source, two.target)
    assert len({one.fingerprint, two.fingerprint, mixed.fingerprint}) == 3


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"tokenizer folder .*gone does not exist"):
        TokenizerPair.load(tmp_path / "gone")


def test_a_missing_side_is_an_error(tmp_path: Path) -> None:
    train(TextConfig(joint=False)).save(tmp_path)
    (tmp_path / "target.model").unlink()
    with pytest.raises(SeqloomError, match=r"Cannot read the tokenizer file .*target\.model"):
        TokenizerPair.load(tmp_path)


def test_tags_are_detected_at_the_start_of_source_lines() -> None:
    pairs = [
        ("<2de> <formal> the cat", "<b> x"),
        ("<2fr> a <dog>", "y"),
        ("<s> <0x41> z", "z"),
        ("<2de>a", "z"),
    ]
    pair = train(TextConfig(joint=False), pairs)
    assert pair.source.settings.normalizer.tags == ("<2de>", "<2fr>", "<formal>")
    assert pair.target.settings.normalizer.tags == ()
    assert train(TextConfig(), pairs).source.settings.normalizer.tags == ("<2de>", "<2fr>", "<formal>")


def test_explicit_tags_apply_to_both_sides_and_disable_detection() -> None:
    pair = train(TextConfig(joint=False, tags=("<x>",)), [("<2de> the cat", "<x> y")])
    assert pair.source.settings.normalizer.tags == ("<x>",)
    assert pair.target.settings.normalizer.tags == ("<x>",)


def test_a_new_symbol_on_every_line_does_not_fill_the_vocabulary() -> None:
    pairs = [("<often> a", "b")] * 3 + [(f"<{i}> a", "b") for i in range(5000)]
    tags = train(TextConfig(vocab_size=1000), pairs).source.settings.normalizer.tags
    assert len(tags) == 256
    assert "<often>" in tags


def test_the_sample_is_bounded_and_reproducible() -> None:
    pairs = [(f"s{i}", f"t{i}") for i in range(1000)]
    config = TextConfig(tokenizer="word", byte_fallback=False, sample=100)
    joint, again = train(config, pairs), train(config, pairs)
    assert joint.source.size == 100 + 4
    assert joint.fingerprint == again.fingerprint
    separate = train(config.model_copy(update={"joint": False}), pairs)
    assert (separate.source.size, separate.target.size) == (104, 104)
    late = [i for i in range(500, 1000) if separate.source.decode(separate.source.encode(f"s{i}")) == f"s{i}"]
    assert 25 < len(late) < 75, "the sample is drawn from the entire corpus"


@pytest.mark.parametrize("kind", ["char", "word", "unigram"])
def test_the_vocabularies_have_the_tags_and_what_is_between_them(kind: Any) -> None:
    config = TextConfig(tokenizer=kind, vocab_size=300)
    pair = TokenizerPair.train(config, lambda: [("<V> <PST> say", "said"), ("<V> <INF> go", "go")] * 9)
    for line in ("<V> <PST> say", "<PST> <V> <INF> go"):
        ids = pair.source.encode(line)
        leading = [id in pair.vocabularies.tags for id in ids]
        word = pair.source.decode(id for id, is_tag in zip(ids, leading, strict=True) if not is_tag)
        assert word.strip() == line.rpartition("> ")[2]
        assert leading == sorted(leading, reverse=True)
    assert len(pair.source.tags) == 3


def test_a_mask_is_not_a_tag() -> None:
    pair = TokenizerPair.train(TextConfig(tokenizer="word"), lambda: [("a b", "b")] * 9, symbols=("[MASK]",))
    assert pair.vocabularies.tags == ()
