"""Links from attention over tokens, and the figure of an aligned pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.evaluate.alignment import Gold
from seqloom.inspect.alignment import AlignedPair, soft_links, token_words


class Pieces:
    """A tokenizer whose pieces are given."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)

    def surfaces(self, text: str) -> list[str]:
        return self.pieces


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁hel", "lo", "▁you"], [0, 0, 1]),
        (["▁", "hello", "▁", "you"], [0, 0, 1, 1]),
        (["h", "i", "▁", "y"], [0, 0, 1, 1]),
        (["▁hello▁", "you"], [0, 1]),
        (["▁", "<0xE2>", "<0x82>", "▁you"], [0, 0, 0, 1]),
    ],
)
def test_token_words(pieces: list[str], words: list[int]) -> None:
    assert token_words(Pieces(*pieces), "hello you") == words  # type: ignore[arg-type]


def test_a_tokenizer_with_other_words_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="finds 1 words, white space separates 2"):
        token_words(Pieces("▁hello"), "hello you")  # type: ignore[arg-type]


def test_weights_of_the_tokens_of_a_word_are_added() -> None:
    weights = np.array([[0.3, 0.3, 0.4], [0.1, 0.0, 0.9], [0.2, 0.0, 0.8]])
    # source tokens 0 and 1 are one word; target tokens 0 and 1, too
    assert soft_links(weights, [0, 0, 1], [0, 1, 1]) == [(0, 0), (1, 1)]
    assert soft_links(weights, [0, 1, 2], [0, 0, 1]) == [(2, 0), (2, 1)]


def pair(gold: Gold | None = None) -> AlignedPair:
    sure = np.eye(2, 3)
    return AlignedPair(["a", "$b$"], ["x", "y", "z"], sure, sure / 2, [(0, 0), (1, 1)], gold)


def test_the_figure_shows_links_and_gold(tmp_path: Path) -> None:
    from matplotlib.image import imread

    plain, framed, bare = (tmp_path / f"{name}.png" for name in ("plain", "framed", "bare"))
    pair().save(plain, title="hmm")
    pair(Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)}))).save(framed, title="hmm")
    one = pair()
    AlignedPair(one.source, one.target, one.forward, one.backward, []).save(bare)
    orange = [_orange(np.asarray(imread(path))) for path in (plain, framed, bare)]
    assert orange[0] > orange[2] + 40 and orange[1] > orange[2] + 40  # the legend has a dot too


def _orange(pixels: np.ndarray) -> int:
    red, green, blue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    return int(((red > 0.85) & (green > 0.55) & (green < 0.7) & (blue < 0.2)).sum())


def test_a_figure_needs_a_known_suffix(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="cannot be written as"):
        pair().save(tmp_path / "pair.xyz")


def test_the_pair_as_json() -> None:
    found = pair(Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)}))).to_dict()
    assert found["links"] == [[0, 0], [1, 1]]
    assert found["backward"][0] == [0.5, 0, 0]
    assert found["gold"] == {"sure": [[0, 0]], "possible": [[0, 0], [1, 2]]}
    assert "gold" not in pair().to_dict()
