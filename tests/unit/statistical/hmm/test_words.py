"""Tests of words spelled in bytes and of tag probabilities by ending."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqloom.statistical.hmm.words import Endings, Word, byte_table, words_of
from seqloom.statistical.state_reader import StateReader
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK


def tokenizer(kind: str = "word") -> Tokenizer:
    return Tokenizer.train(
        ["the cat sat", "the dog sat"],
        kind=kind,  # type: ignore[arg-type]
        vocab_size=1000,
        normalize="nfc",
        lowercase=False,
        collapse_spaces=True,
        byte_fallback=True,
        tags=(),
    )


@pytest.mark.parametrize("text", ["the cat sat", "the Zäbra sat", "foo bar", "foo the bar baz cat", "x", ""])
def test_words_match_the_text(text: str) -> None:
    tokens = tokenizer()
    ids = tokens.encode(text)
    words = words_of(ids, byte_table(tokens).tolist())
    shown = [word.spelling.decode() or tokens.pieces([word.id])[0] for word in words]
    assert shown == text.split()
    for word in words:  # the position is that of the word's first token
        begun = tokens.bytes_of(ids[word.position : word.position + 3])
        assert b"".join(begun).startswith("▁".encode())
        assert (word.id == UNK) == bool(word.spelling)


def test_unseen_character_is_one_word() -> None:
    tokens = tokenizer("char")
    words = words_of(tokens.encode("cäat"), byte_table(tokens).tolist())
    assert [word.spelling.decode() or tokens.pieces([word.id])[0] for word in words] == ["c", "ä", "a", "t"]
    assert [word.position for word in words] == [0, 1, 3, 4]


NOUN, VERB = np.array([1.0, 0.0]), np.array([0.0, 1.0])


def estimated(theta: float = 1.0, longest: int = 5) -> Endings:
    words = [(b"walking", VERB), (b"going", VERB), (b"table", NOUN), (b"Anna", NOUN), (b"1990", NOUN)]
    return Endings.estimate(words, np.array([0.5, 0.5]), longest=longest, theta=theta)


def test_longest_known_ending_is_used() -> None:
    endings = estimated()
    assert endings(b"singing")[1] > 0.8
    assert endings(b"cable")[0] > 0.8
    assert endings(b"Xyz")[0] > endings(b"xyz")[0]  # capitalised training words were nouns
    assert float(endings(b"")[0]) == pytest.approx(endings.probabilities[-1, 0])


def test_endings_are_smoothed_by_shorter_ones() -> None:
    endings = estimated(theta=2.0, longest=1)
    root = (3 + 2 * 0.5) / (5 + 2)  # of all rare words
    shape = (1 + 2 * root) / (3 + 2)  # lower case: one noun, two verbs
    last = (0 + 2 * shape) / (2 + 2)  # ending in g: two verbs
    assert float(endings(b"running")[0]) == pytest.approx(last)
    assert float(endings(b"ruz")[0]) == pytest.approx(shape)
    torch.testing.assert_close(endings.probabilities.sum(1), torch.ones(len(endings.probabilities)).double())


def test_state_dict_round_trip() -> None:
    endings = estimated()
    again = Endings.from_state(StateReader(endings.state_dict()), 5)
    for word in (b"walking", b"sing", "Zäbra".encode(), b"7"):
        assert torch.equal(again(word), endings(word))


def test_word_has_a_position() -> None:
    assert Word(3, 7).spelling == b""
