"""Tokenizers of Marian models, and conversion of other tokenizers to them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.marian import MarianSettings, MarianTokenizer, as_marian
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, PAD, UNK

LINES = ["the cat sat on the mat", "a dog ran to the cat", "on the mat a dog sat"] * 4
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")


def spm(lines: list[str], vocab_size: int = 30, **options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def model() -> bytes:
    return spm(LINES)


@pytest.fixture(scope="module")
def tokenizer(model: bytes) -> MarianTokenizer:
    """Return a tokenizer with reversed pieces, a language code and a character that its model does not have."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    backwards = [pieces.id_to_piece(id) for id in reversed(range(3, pieces.get_piece_size()))]
    return MarianTokenizer(model, MarianSettings(vocabulary=(*SPECIALS, *backwards, ">>fra<<", "Ж")))


def test_ids_are_those_of_the_vocabulary(tokenizer: MarianTokenizer, model: bytes) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model).encode("the cat ran", out_type=str)
    ids = tokenizer.encode("the cat ran")
    assert tokenizer.pieces(ids) == pieces
    assert [tokenizer.vocabulary[id] for id in ids] == pieces
    assert tokenizer.encode_batch(["the cat ran", "", "a"], threads=2) == [ids, [], tokenizer.encode("a")]
    assert tokenizer.encode_batch([], threads=2) == []


def test_text_comes_back_normalised(tokenizer: MarianTokenizer) -> None:
    text = "  the   cat\tsat ｏn the mat "
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text) == "the cat sat on the mat"


def test_the_code_of_a_language_is_kept_whole(tokenizer: MarianTokenizer) -> None:
    assert tokenizer.encode(">>fra<< the cat") == [tokenizer.symbol(">>fra<<"), *tokenizer.encode("the cat")]
    assert tokenizer.encode(">>deu<< a")[0] == UNK, "a code that the model does not know"
    assert tokenizer.normalize(">>fra<<  the  cat") == ">>fra<<the cat"
    assert UNK in tokenizer.encode(">>fra the cat"), "not a code: it has no end"


def test_a_piece_of_the_other_language_has_an_id(tokenizer: MarianTokenizer) -> None:
    assert tokenizer.symbol("Ж") in tokenizer.encode("Ж")


def test_unknown_pieces_have_no_text_and_text_never_maps_to_special_ids(tokenizer: MarianTokenizer) -> None:
    ids = tokenizer.encode("the 7 cat")
    assert UNK in ids
    assert tokenizer.decode([PAD, BOS, *ids, EOS]).split() == ["the", "cat"]
    for special in SPECIALS:
        assert not {PAD, BOS, EOS} & set(tokenizer.encode(special))


def test_byte_pieces_are_joined() -> None:
    model = spm([*LINES, *(chr(ord("a") + i) for i in range(26))], byte_fallback=True, vocab_size=320)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    known = tuple(pieces.id_to_piece(id) for id in range(3, pieces.get_piece_size()))
    tokenizer = MarianTokenizer(model, MarianSettings(vocabulary=(*SPECIALS, *known)))
    assert tokenizer.decode(tokenizer.encode("the Ж cat")) == "the Ж cat"
    assert b"".join(tokenizer.bytes_of(tokenizer.encode("Ж"))) == "▁Ж".encode()


def test_a_missing_symbol_is_an_error(tokenizer: MarianTokenizer) -> None:
    with pytest.raises(
        SeqloomError, match=r"vocabulary of this imported model does not contain the symbol \[MASK\]"
    ):
        tokenizer.symbol("[MASK]")


def test_a_loaded_pair_is_the_saved_one(tokenizer: MarianTokenizer, tmp_path: Path) -> None:
    target = MarianTokenizer(spm(["le chat noir", "un chien"] * 4), tokenizer.settings)
    for number, pair in enumerate(
        (TokenizerPair(tokenizer, target), TokenizerPair(tokenizer, tokenizer), trained())
    ):
        pair.save(tmp_path / str(number))
        loaded = TokenizerPair.load(tmp_path / str(number))
        assert loaded.fingerprint == pair.fingerprint
        assert loaded.joint == pair.joint
        assert type(loaded.target) is type(pair.target)
        assert loaded.target.encode("le chat") == pair.target.encode("le chat")


def test_sides_with_equal_vocabularies_are_joint(tokenizer: MarianTokenizer) -> None:
    other = MarianTokenizer(spm(["le chat noir", "un chien"] * 4), tokenizer.settings)
    fewer = MarianSettings(vocabulary=tokenizer.vocabulary[:-1])
    assert TokenizerPair(tokenizer, other).joint
    assert not TokenizerPair(tokenizer, MarianTokenizer(other.model, fewer)).joint


@pytest.mark.parametrize("damage", ["", "[]", '{"kind": "marian"}'])
def test_a_damaged_file_is_an_error(damage: str, tokenizer: MarianTokenizer, tmp_path: Path) -> None:
    TokenizerPair(tokenizer, tokenizer).save(tmp_path)
    (tmp_path / "joint.json").write_text(damage)
    with pytest.raises(SeqloomError, match=r"joint\.json is damaged"):
        TokenizerPair.load(tmp_path)


def trained(**options: object) -> TokenizerPair:
    config = TextConfig.checked({"vocab_size": 330, **options}, "text")
    return TokenizerPair.train(config, lambda: [("<2de> " + line, line) for line in LINES])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tokenizer": "bpe"},
        {"tokenizer": "char"},
        {"tokenizer": "word", "byte_fallback": False},
        {"collapse_spaces": False},
    ],
    ids=["unigram", "bpe", "char", "word", "spaces"],
)
def test_a_converted_tokenizer_splits_text_identically(options: dict[str, object]) -> None:
    ours: Tokenizer = trained(**options).source
    theirs = as_marian(ours)
    assert theirs.size == ours.size
    for line in ("<2de> the cat sat", "dog", "a  dog ran Жor", "one. Two, three!"):
        text = ours.normalize(line)
        assert theirs.encode(text) == ours.encode(text)
        if UNK not in ours.encode(text):
            assert theirs.decode(theirs.encode(text)) == text
    assert as_marian(theirs) is theirs


@pytest.mark.parametrize("options", [{"lowercase": True}, {"normalize": "nfkc"}])
def test_a_tokenizer_that_changes_the_text_cannot_be_converted(options: dict[str, object]) -> None:
    with pytest.raises(SeqloomError, match=r"normalises text with text\."):
        as_marian(trained(**options).source)
