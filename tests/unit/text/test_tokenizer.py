"""Tokenizers: lossless round trips, tags, any vocabulary size, saving and loading."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seqloom.errors import SeqloomError
from seqloom.text.config import Kind
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, PAD, UNK

KINDS = get_args(Kind)
CORPUS = [
    "A man in a blue shirt is standing on a ladder cleaning a window .",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster .",
    "Two young , white males are outside near many bushes . </s> 1 < 2",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche .",
    "x\t= [0]\u2581* 12 # <s> ▅",
] * 5

# Characters with a special meaning in SentencePiece, and other common sources of errors.
AWKWARD = [
    *["▁", "▁▁a ▁", "\x00", "a\x00b", "\t", "\ue009", "\ue009\t▁ ", "▅", "<s>", "</s>", "<unk>", "<pad>"],
    *[
        "a</s>",
        "<0x41>",
        "<0x00><0xE2><0x96><0x81>",
        "\ue000\uf8ff",
        "\U0010ffff",
        "😀👨‍👩‍👧",
        "\ufffd",
        "\ufeff",
        "⁇",
        "�",
    ],
    *[
        " ",
        "  a",
        "a  ",
        "\r",
        "\x85",
        "\u2028",
        "\u00a0",
        "e\u0301",
        "ﬁ",
        "İI",
        "\ud7ff\ue000",
        "مرحبا",
        "漢字かな",
    ],
]
LINES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")),
    st.lists(st.sampled_from([*AWKWARD, " ", "man", "Fenster", "<2de>"])).map("".join),
)


@functools.cache
def tokenizer(kind: Kind = "unigram", **options: Any) -> Tokenizer:
    plain: dict[str, Any] = {
        "vocab_size": 400,
        "normalize": "nfc",
        "lowercase": False,
        "collapse_spaces": True,
        "byte_fallback": True,
        "tags": (),
    }
    lines = options.pop("lines", tuple(CORPUS))
    return Tokenizer.train(lines, kind=kind, **{**plain, **options})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("collapse_spaces", [True, False])
@settings(max_examples=150, deadline=None)
@given(text=LINES)
def test_decoding_gives_the_normalised_text(kind: Kind, collapse_spaces: bool, text: str) -> None:
    tok = tokenizer(kind, collapse_spaces=collapse_spaces, tags=("<2de>",))
    assert tok.decode(tok.encode(text)) == tok.normalize(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_text_round_trips(kind: Kind, text: str) -> None:
    tok = tokenizer(kind, normalize="none", collapse_spaces=False)
    ids = tok.encode(text)
    assert tok.decode(ids) == text
    assert not {PAD, BOS, EOS, UNK} & set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids(kind: Kind) -> None:
    tok = tokenizer(kind)
    ids = tok.encode("A man")
    assert tok.decode([BOS, *ids, EOS, PAD, PAD]) == "A man"
    assert all(UNK < id < tok.size for id in ids)


@settings(max_examples=50, deadline=None)
@given(text=LINES, form=st.sampled_from(["none", "nfc", "nfkc"]), lowercase=st.booleans())
@example(text="<2DE> A\u0301", form="nfkc", lowercase=True)
def test_round_trips_with_every_normalisation(text: str, form: str, lowercase: bool) -> None:
    tok = tokenizer(normalize=form, lowercase=lowercase, tags=("<2DE>",))
    assert tok.decode(tok.encode(text)) == tok.normalize(text)


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_not_split(kind: Kind) -> None:
    tags = ("<2de>", "<a,b>", "»x«")
    tok = tokenizer(kind, tags=tags, lowercase=True)
    pieces = [piece.removeprefix("▁") for piece in tok.pieces(tok.encode("<2de> <a,b> A man »x« man"))]
    assert [piece for piece in pieces if piece in tags] == ["<2de>", "<a,b>", "»x«"]
    assert not {"<2de>", "<2de"} & set(tok.pieces(tok.encode("<2den> <2fr>")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tag_is_one_token(kind: Kind) -> None:
    tok = tokenizer(kind, tags=("<2de>",))
    assert len(tok.encode("<2de>")) == 1


def test_word_and_char_tokenizers_split_at_words_and_characters() -> None:
    word, char = tokenizer("word", lines=("HH AH0 L OW1",)), tokenizer("char")
    assert word.pieces(word.encode("L OW1 HH")) == ["L", "OW1", "HH"]
    assert char.pieces(char.encode("man in")) == ["m", "a", "n", "▁", "i", "n"]


def test_without_byte_fallback_unseen_characters_are_unknown() -> None:
    tok = tokenizer("char", byte_fallback=False)
    assert tok.encode("a漢") == [tok.encode("a")[0], UNK]
    assert tok.decode(tok.encode("a漢")) == "a⁇"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_a_vocabulary_that_is_too_large_is_reduced_with_a_note(kind: Kind, byte_fallback: bool) -> None:
    tok = tokenizer(kind, vocab_size=30_000, byte_fallback=byte_fallback)
    assert tok.size < 1000
    assert tok.notes == [f"vocabulary reduced from 30,000 to {tok.size}: the corpus has no more pieces"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_too_small_for_the_bytes_is_increased_with_a_note(kind: Kind) -> None:
    tok = tokenizer(kind, vocab_size=100, tags=("<2de>",))
    assert 256 + 5 < tok.size < 400
    assert tok.notes == [f"vocabulary increased from 100 to {tok.size} to hold all characters, bytes and tags"]
    assert tok.decode(tok.encode("Ein Mann <2de>")) == "Ein Mann <2de>"


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_that_fits_has_no_note(kind: Kind) -> None:
    size = {"word": 290, "char": 300}.get(kind, 330)
    tok = tokenizer(kind, vocab_size=size)
    assert tok.size == size
    assert tok.notes == []


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_thousands_of_characters_leave_room_for_pieces(kind: Kind, byte_fallback: bool) -> None:
    han = "".join(chr(0x4E00 + i) for i in range(3000))
    lines = tuple(["the man the man"] * 300 + [han[i : i + 30] for i in range(0, 3000, 30)])
    tok = tokenizer(kind, lines=lines, vocab_size=1000, byte_fallback=byte_fallback)
    assert 700 < tok.size <= 1000
    assert tok.pieces(tok.encode("the man")) == ["▁the", "▁man"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ["a", "x" * 50, ".", "▁", "▅", "\x00", "</s>", "<0x41>", "\t", "1 2 3", "é"])
def test_the_smallest_corpora_train(kind: Kind, line: str) -> None:
    tok = tokenizer(kind, lines=(line,), vocab_size=8000, collapse_spaces=False)
    assert tok.decode(tok.encode(f"{line} z")) == f"{line} z"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lines", [(), ("", "   ")])
def test_an_empty_corpus_is_an_error(kind: Kind, lines: tuple[str, ...]) -> None:
    with pytest.raises(SeqloomError, match="every line of the training data is empty"):
        tokenizer(kind, lines=lines)


def test_long_lines_are_not_skipped() -> None:
    tok = tokenizer("word", lines=("common", "rare " * 3000), byte_fallback=False)
    assert UNK not in tok.encode("rare common")


def test_training_is_silent_and_reproducible(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = (tokenizer.__wrapped__("unigram") for _ in range(2))
    assert first.fingerprint == second.fingerprint
    assert capfd.readouterr() == ("", "")


def test_the_fingerprint_depends_on_model_and_settings() -> None:
    prints = {tokenizer().fingerprint, tokenizer("bpe").fingerprint, tokenizer(normalize="none").fingerprint}
    assert len(prints) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_batch_encoding_equals_single_encoding(kind: Kind) -> None:
    tok = tokenizer(kind)
    texts = [*CORPUS, "", *AWKWARD]
    for threads in (1, 3):
        assert tok.encode_batch(texts, threads) == [tok.encode(text) for text in texts]
    assert tok.encode_batch([], 2) == []


def test_incomplete_characters_decode_to_the_replacement_character() -> None:
    tok = tokenizer()
    (byte, *_) = (id for id in range(tok.size) if tok.pieces([id]) == ["<0xE2>"])
    assert tok.decode([*tok.encode("man"), byte]) == "man\ufffd"


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_tokenizer_is_the_saved_one(kind: Kind, tmp_path: Path) -> None:
    tok = tokenizer(kind, lowercase=True, tags=("<2DE>",))
    tok.save(tmp_path / "tokenizer", "source")
    loaded = Tokenizer.load(tmp_path / "tokenizer", "source")
    assert loaded.fingerprint == tok.fingerprint
    assert loaded.encode("<2DE> Ein MANN") == tok.encode("<2DE> Ein MANN")


@pytest.mark.parametrize("name", ["source.model", "source.json"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    tokenizer().save(tmp_path, "source")
    (tmp_path / name).unlink()
    with pytest.raises(SeqloomError, match=f"Cannot read the tokenizer file .*{name}: No such file") as caught:
        Tokenizer.load(tmp_path, "source")
    assert caught.value.hint


def _flip(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


DAMAGES = {
    "flipped model": ("source.model", _flip),
    "empty model": ("source.model", lambda _: b""),
    "half a json": ("source.json", lambda data: data[: len(data) // 2]),
    "no json": ("source.json", lambda _: b"\xff\x00"),
    "a list": ("source.json", lambda _: b"[]"),
    "no checksum": ("source.json", lambda _: b"{}"),
    "unknown kind": ("source.json", lambda data: data.replace(b"unigram", b"trigram")),
    "known kind": ("source.json", lambda data: data.replace(b"unigram", b"word")),
    "another setting": ("source.json", lambda data: data.replace(b'"lowercase": false', b'"lowercase": true')),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(damage: str, tmp_path: Path) -> None:
    name, change = DAMAGES[damage]
    tokenizer().save(tmp_path, "source")
    (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
    with pytest.raises(SeqloomError, match=f"{name} is damaged"):
        Tokenizer.load(tmp_path, "source")


def test_the_settings_are_readable(tmp_path: Path) -> None:
    tokenizer("char").save(tmp_path, "joint")
    record = json.loads((tmp_path / "joint.json").read_text(encoding="utf-8"))
    assert record["kind"] == "char"
    assert record["normalizer"]["normalize"] == "nfc"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_surfaces_keep_unknown_text(kind: Kind, byte_fallback: bool) -> None:
    tok = tokenizer(kind, byte_fallback=byte_fallback)
    text = "A man paints Ωmega \u2581 7λ ."
    ids, surfaces = tok.encode(text), tok.surfaces(text)
    assert len(surfaces) == len(ids)
    assert (UNK in ids) == (not byte_fallback)
    pieces = zip(tok.bytes_of(ids), ids, surfaces, strict=True)
    assert tok.spell(surface.encode() if id == UNK else piece for piece, id, surface in pieces) == text


def test_a_single_text_is_encoded_without_new_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """SentencePiece encodes a list in threads that it starts for each call: 40 times as slow as one text."""
    tokenizer = Tokenizer.train(
        CORPUS,
        kind="bpe",
        vocab_size=400,
        normalize="none",
        lowercase=False,
        collapse_spaces=False,
        byte_fallback=True,
        tags=(),
    )
    real, given_types = tokenizer._processor.encode, set[type]()

    def encode(text: Any, **options: Any) -> Any:
        given_types.add(type(text))
        return real(text, **options)

    monkeypatch.setattr(tokenizer._processor, "encode", encode)
    assert tokenizer.decode(tokenizer.encode("A man [MASK] .")) == "A man [MASK] ."
    assert "".join(tokenizer.surfaces("A man .")) == "▁A▁man▁."
    assert given_types == {str}
