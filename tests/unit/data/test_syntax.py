"""Heads from columns and CoNLL-U, reasons for malformed ones, and their mapping to tokens."""

from __future__ import annotations

import functools
import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.records import Malformed
from seqloom.data.syntax import cut_heads, parse_heads, read_conllu, token_heads
from seqloom.text.config import Kind
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import CONTINUES, DependencyTree

KINDS = get_args(Kind)
CORPUS = ("the old man sees a small dog", "the dog is old", "a man walks", "½ ▁ <0xE2> x y") * 4


@functools.cache
def tokenizer(kind: Kind, **options: Any) -> Tokenizer:
    plain: dict[str, Any] = {
        "vocab_size": 300,
        "normalize": "nfc",
        "lowercase": False,
        "collapse_spaces": True,
        "byte_fallback": True,
        "tags": (),
    }
    return Tokenizer.train(CORPUS, kind=kind, **{**plain, **options})


# Columns


@pytest.mark.parametrize(
    "column, text, heads",
    [
        ("2 0 2", "dogs chase cats", (2, 0, 2)),
        (" 0  1\t1 ", "go there  now", (0, 1, 1)),
        ("0 0 2", "<2de> walk home", (0, 0, 2)),  # a forest: the tag is a separate tree
        ("", "", ()),
    ],
)
def test_a_column_has_one_head_per_word(column: str, text: str, heads: DependencyTree) -> None:
    assert parse_heads(column, text) == heads


@pytest.mark.parametrize(
    "column, reason",
    [
        ("2 0", "the number of heads differs from the number of words"),
        ("2 0 2 2", "the number of heads differs from the number of words"),
        ("2 zero 2", "a head is not a number"),
        ("2 0 1.5", "a head is not a number"),
        ("2 0 4", "a head is not the number of a word"),
        ("2 0 -1", "a head is not the number of a word"),
        ("2 3 1", "the heads have no root"),
        ("0 3 2", "the heads form a cycle"),
        ("0 2 1", "the heads form a cycle"),
        ("3 0 1", "the heads form a cycle"),
    ],
)
def test_a_column_that_is_not_a_tree_has_a_reason(column: str, reason: str) -> None:
    with pytest.raises(Malformed, match=f"^{reason}$"):
        parse_heads(column, "one two three")


def test_a_deep_tree_is_accepted() -> None:
    chain = tuple(range(5000))
    assert parse_heads(" ".join(map(str, chain)), "w " * 5000) == chain


# CoNLL-U


def _word(number: str, form: str, head: str) -> str:
    return "\t".join((number, form, "_", "_", "_", "_", head, "_", "_", "_"))


def _conllu(folder: Path, *sentences: list[str]) -> str:
    path = folder / "trees.conllu"
    path.write_text("".join("\n".join(lines) + "\n\n" for lines in sentences), encoding="utf-8")
    return str(path)


def test_conllu_has_words_and_heads(tmp_path: Path) -> None:
    path = _conllu(
        tmp_path,
        [
            "# text = Er geht zum Haus",
            _word("1", "Er", "2"),
            _word("2", "geht", "0"),
            _word("3-4", "zum", "_"),
            _word("3", "zu", "5"),
            _word("4", "dem", "5"),
            _word("5", "Haus", "2"),
            _word("5.1", "x", "_"),
        ],
        ["# nothing but a comment"],
        [_word("1", "Go", "0")],
    )
    assert list(read_conllu(path)) == [
        (2, "Er geht zu dem Haus", (2, 0, 5, 5, 2), ""),
        (12, "Go", (0,), ""),
    ]


def test_the_last_empty_line_is_optional_and_the_file_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "trees.conllu.gz"
    path.write_bytes(gzip.compress(f"{_word('1', 'Go', '0')}\r\n".encode()))
    assert [tuple(sentence) for sentence in read_conllu(str(path))] == [(1, "Go", (0,), "")]


def test_a_form_with_spaces_is_several_words_that_depend_on_the_first(tmp_path: Path) -> None:
    path = _conllu(tmp_path, [_word("1", "fast", "2"), _word("2", "10 000 000", "3"), _word("3", "Euro", "0")])
    [sentence] = read_conllu(path)
    assert sentence.text == "fast 10 000 000 Euro"
    assert sentence.heads == (2, 5, 2, 2, 0)
    assert parse_heads(" ".join(map(str, sentence.heads)), sentence.text) == sentence.heads


@pytest.mark.parametrize(
    "lines, reason",
    [
        (["1\tGo\t0"], "a CoNLL-U word does not have ten columns"),
        (["just text"], "a CoNLL-U word does not have ten columns"),
        ([_word("1", " ", "0")], "a CoNLL-U word has no form"),
        ([_word("2", "Go", "0")], "the CoNLL-U words are not numbered 1, 2, 3 …"),
        ([_word("1", "Go", "0"), _word("1", "on", "1")], "the CoNLL-U words are not numbered 1, 2, 3 …"),
        ([_word("1", "Go", "_")], "a head is not a number"),
        ([_word("1", "Go", "")], "a head is not a number"),
        ([_word("1", "Go", "2")], "a head is not the number of a word"),
        ([_word("1", "Go", "1")], "the heads have no root"),
        ([_word("1", "a", "0"), _word("2", "b", "3"), _word("3", "c", "2")], "the heads form a cycle"),
    ],
)
def test_a_malformed_sentence_is_reported_and_the_next_one_is_read(
    tmp_path: Path, lines: list[str], reason: str
) -> None:
    first, second = read_conllu(_conllu(tmp_path, lines, [_word("1", "Yes", "0")]))
    assert (first.line, first.heads, first.fault) == (1, None, reason)
    assert second[1:] == ("Yes", (0,), "")


# Tokens


def _words(cutter: Tokenizer, text: str, heads: DependencyTree) -> tuple[list[str], list[int]]:
    """Return the text of the tokens of each word, and the heads as word numbers."""
    ids = cutter.encode(text)
    found = token_heads(cutter, ids, heads)
    assert len(found) == len(ids)
    places = [place for place, head in enumerate(found) if head != CONTINUES] + [len(ids)]
    words = [cutter.decode(ids[a:b]).strip() for a, b in pairwise(places)]
    numbers = {place + 1: number for number, place in enumerate(places[:-1], 1)}
    return words, [numbers[head] if head else 0 for head in found if head != CONTINUES]


TEXTS = ["the old man", "unseen wörds zzzz", "½ ▁ <0xE2>", "▁▁ ▁x x▁", "漢字 😀 é", "⁇ ⁇⁇ the"]


@pytest.mark.parametrize("collapse_spaces", [True, False])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_word_has_its_tokens_and_its_head(kind: Kind, text: str, collapse_spaces: bool) -> None:
    cutter = tokenizer(kind, collapse_spaces=collapse_spaces)
    assert _words(cutter, text, (2, 0, 2)) == (text.split(), [2, 0, 2])


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_word_counts_as_a_word(kind: Kind) -> None:
    cutter = tokenizer(kind, byte_fallback=False, vocab_size=60)
    for text in ("the 漢字 man", "漢字 the 漢字", "the man 漢字"):
        words, heads = _words(cutter, text, (2, 0, 2))
        assert heads == [2, 0, 2]
        assert [word for word in words if "⁇" not in word] == [word for word in text.split() if word != "漢字"]


def test_adjacent_unknown_words_are_one_token_and_do_not_match_a_tree() -> None:
    cutter = tokenizer("word", byte_fallback=False, vocab_size=60)
    with pytest.raises(Malformed, match="number of tokenised words"):
        token_heads(cutter, cutter.encode("the 漢字 漢字"), (2, 0, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_spaces_belong_to_the_next_word_and_trailing_spaces_to_the_last(kind: Kind) -> None:
    cutter = tokenizer(kind, collapse_spaces=False)
    words, heads = _words(cutter, "  the   man  sees ", (3, 1, 0))
    assert (words, heads) == (["the", "man", "sees"], [3, 1, 0])
    ids = cutter.encode("a  a")
    assert token_heads(cutter, ids, (2, 0)) == [2, 0, *[CONTINUES] * (len(ids) - 2)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50, deadline=None)
@given(words=st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=1))
def test_tokens_are_assigned_to_their_words(kind: Kind, words: list[str]) -> None:
    chain = tuple(range(len(words)))
    cutter = tokenizer(kind)
    text = " ".join(words)
    assert _words(cutter, text, chain) == (cutter.normalize(text).split(), list(chain))


def test_the_tokens_of_known_pieces_are_as_expected() -> None:
    cutter = tokenizer("char")
    assert token_heads(cutter, cutter.encode("a xy"), (2, 0)) == [2, 0, -1, -1]  # a ▁ x y
    assert token_heads(tokenizer("word"), tokenizer("word").encode("the old man"), (3, 3, 0)) == [3, 3, 0]


def test_normalisation_may_change_the_number_of_words() -> None:
    cutter = tokenizer("unigram", normalize="nfkc")
    text = "the ¨ man"  # NFKC: a space and a combining mark
    assert len(cutter.normalize(text).split()) == 3  # the space merges with the one before it
    assert token_heads(cutter, cutter.encode(text), (3, 3, 0)).count(CONTINUES) < len(cutter.encode(text))
    text = "the a¨ man"
    assert len(cutter.normalize(text).split()) == 4
    with pytest.raises(Malformed, match="number of tokenised words"):
        token_heads(cutter, cutter.encode(text), (3, 3, 0))


def test_tokens_without_a_head_become_roots_in_a_truncated_tree() -> None:
    assert cut_heads([4, -1, 1, 0, -1, 4], 6) == [4, -1, 1, 0, -1, 4]
    assert cut_heads([4, -1, 1, 0, -1, 4], 3) == [0, -1, 1]
    assert cut_heads([4, -1, 1, 0, -1, 4], 4) == [4, -1, 1, 0]
    assert cut_heads([3, 0], 0) == []
