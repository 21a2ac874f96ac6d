from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from seqloom.decode.config import SearchConfig
from seqloom.decode.mask_filling import Candidate, Filler
from seqloom.errors import SeqloomError
from seqloom.text.config import MASK, TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import Batch

LINES = ["a man is playing a guitar .", "two dogs are running , playing", "the woman plays a red guitar"]


class Fixed(nn.Module):
    """Model with the same ranking at every position: each piece is twice as likely as the next."""

    def __init__(self, tokenizer: Tokenizer, wanted: list[str]) -> None:
        super().__init__()
        pieces = tokenizer.pieces(range(tokenizer.size))
        weights = torch.full((tokenizer.size,), 1e-6)
        for rank, piece in enumerate(wanted):
            weights[pieces.index(piece)] = 2.0**-rank
        self.probabilities = weights / weights.sum()
        self.sources: list[list[int]] = []
        self.output = nn.Identity()

    def hidden(self, batch: Batch) -> Tensor:
        self.sources += batch.source.tolist()
        logits: Tensor = self.probabilities.log().expand(*batch.source.shape, -1)
        return logits


class Neighbour(nn.Module):
    """Model that predicts the previous token at each position."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.output = nn.Identity()

    def hidden(self, batch: Batch) -> Tensor:
        return 9.0 * one_hot(batch.source.roll(1, dims=1), self.size).float()


def _tokenizer(kind: Any = "unigram", **options: Any) -> Tokenizer:
    config = TextConfig(tokenizer=kind, vocab_size=options.pop("vocab_size", 330), **options)
    return TokenizerPair.train(config, lambda: [(line, line) for line in LINES] * 20, symbols=(MASK,)).source


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return _tokenizer()


def _pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    filler = Filler(nn.Identity(), tokenizer, SearchConfig())
    return tokenizer.pieces(filler.encode(text).ids)


@pytest.mark.parametrize(
    "text, before, behind, begins",
    [
        ("a [MASK] .", "a", "x .", [True]),
        ("a [MASK].", "a", "x.", [True]),
        ("[MASK] a", "", "x a", [True]),
        ("  a   [MASK]  man ", "a", "x man", [True]),
        ("play[MASK] man", "play", "x man", [False]),
        ("play[MASK]", "play", "x", [False]),
        ("[MASK]ing", "", "xing", [True]),
        ("([MASK])", "(", "x)", [False]),
    ],
)
def test_a_gap_may_be_adjacent_to_text(
    tokenizer: Tokenizer, text: str, before: str, behind: str, begins: list[bool]
) -> None:
    """The tokens before a gap are those of the text before it; those after it continue a word."""
    gapped = Filler(nn.Identity(), tokenizer, SearchConfig()).encode(text)
    mask = tokenizer.symbol(MASK)
    assert gapped.begins == begins
    assert gapped.ids.count(mask) == 1
    place = gapped.ids.index(mask)
    assert gapped.ids[:place] == tokenizer.encode(before)
    assert tokenizer.decode([*tokenizer.encode("x"), *gapped.ids[place + 1 :]]) == behind


def test_several_gaps(tokenizer: Tokenizer) -> None:
    gapped = Filler(nn.Identity(), tokenizer, SearchConfig()).encode("[MASK] [MASK][MASK], a [MASK]")
    assert gapped.begins == [True, True, False, True]
    assert gapped.ids.count(tokenizer.symbol(MASK)) == 4


def test_lowercasing_does_not_affect_the_mask() -> None:
    tokenizer = _tokenizer(lowercase=True)
    for text in ("A [MASK].", "A Man[MASK]", "[MASK]Man a", "A [MASK] Man."):
        ids = Filler(nn.Identity(), tokenizer, SearchConfig()).encode(text).ids
        assert ids.count(tokenizer.symbol(MASK)) == 1
        assert tokenizer.decode(ids).replace(" ", "") == text.lower().replace("[mask]", MASK).replace(" ", "")


def test_spaces_are_kept_if_the_normalizer_keeps_them() -> None:
    tokenizer = _tokenizer(collapse_spaces=False)
    for text in ("a  [MASK]  man", " [MASK]", "a [MASK] "):
        ids = Filler(nn.Identity(), tokenizer, SearchConfig()).encode(text).ids
        assert tokenizer.decode(ids) == text


def test_character_tokenizers_keep_spaces() -> None:
    tokenizer = _tokenizer("char")
    assert _pieces(tokenizer, "a m[MASK]n [MASK] is") == [*"a▁m", MASK, *"n▁", MASK, *"▁is"]
    filler = Filler(Neighbour(tokenizer.size), tokenizer, SearchConfig())
    assert filler.fill(["a m[MASK]n"])[0].text == "a mmn"
    assert filler.fill(["a [MASK]n"])[0].text == "a  n"


def test_with_word_tokenizers_a_gap_is_a_word() -> None:
    tokenizer = _tokenizer("word", byte_fallback=False, vocab_size=40)
    filler = Filler(Neighbour(tokenizer.size), tokenizer, SearchConfig())
    assert filler.fill(["a guitar [MASK] ."])[0].text == "a guitar guitar ."


def test_candidates_have_probabilities(tokenizer: Tokenizer) -> None:
    model = Fixed(tokenizer, ["▁guitar", "▁man", "▁red"])
    (filled,) = Filler(model, tokenizer, SearchConfig()).fill(["the [MASK]."], top=3)
    assert filled.text == "the guitar."
    p = model.probabilities.sort(descending=True).values.tolist()
    assert filled.gaps == (
        (
            Candidate("guitar", pytest.approx(p[0])),
            Candidate("man", pytest.approx(p[1])),
            Candidate("red", pytest.approx(p[2])),
        ),
    )


def test_candidates_fit_the_gap(tokenizer: Tokenizer) -> None:
    """After a space, tokens that begin a word; after a letter, tokens that continue one; no special tokens."""
    model = Fixed(tokenizer, ["</s>", "<pad>", "▁[MASK]", "<unk>", "<s>", "▁guitar", "s", "▁man", "g"])
    filler = Filler(model, tokenizer, SearchConfig())
    (filled,) = filler.fill(["play[MASK] a [MASK]."], top=2)
    assert filled.text == "plays a guitar."
    assert [[token for token, _ in gap] for gap in filled.gaps] == [["s", "g"], ["guitar", "man"]]
    for gap in filler.fill(["a[MASK] [MASK]"], top=100_000)[0].gaps:
        assert 0 < len(gap) < tokenizer.size - 5
        assert not {"</s>", "<pad>", "[MASK]", "⁇", "<s>"} & {token for token, _ in gap}


def test_unreadable_tokens_are_shown_as_pieces(tokenizer: Tokenizer) -> None:
    model = Fixed(tokenizer, ["▁", "<0xC3>"])
    filler = Filler(model, tokenizer, SearchConfig())
    assert filler.fill(["a [MASK]"])[0].gaps[0][0].token == "▁"
    assert filler.fill(["a[MASK]"])[0].gaps[0][0].token == "<0xC3>"


def test_each_gap_is_filled_by_its_own_context(tokenizer: Tokenizer) -> None:
    lines = ["a [MASK]", "the woman plays a red guitar [MASK]", "two [MASK] are man [MASK]"]
    filler = Filler(Neighbour(tokenizer.size), tokenizer, SearchConfig())
    wanted = ["a a", "the woman plays a red guitar guitar", "two two are man man"]
    assert [filled.text for filled in filler.fill(lines)] == wanted


@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_results_are_in_the_order_of_the_lines(tokenizer: Tokenizer, batch_tokens: int) -> None:
    words = ["a", "man", "guitar", "two", "dogs"]
    lines = [f"{word} [MASK] {'a ' * n}" for n, word in enumerate(words)]
    seen: list[int] = []
    filler = Filler(Neighbour(tokenizer.size), tokenizer, SearchConfig(batch_tokens=batch_tokens))
    answers = filler.fill(lines, on_progress=seen.append)
    assert [filled.gaps[0][0].token for filled in answers] == words
    assert sum(seen) == len(lines)


def test_no_lines_give_no_results(tokenizer: Tokenizer) -> None:
    assert Filler(Neighbour(tokenizer.size), tokenizer, SearchConfig()).fill([]) == []


def test_a_text_without_a_gap_is_an_error(tokenizer: Tokenizer) -> None:
    filler = Filler(Neighbour(tokenizer.size), tokenizer, SearchConfig())
    with pytest.raises(SeqloomError, match=r"Text 2 .*\[MASK\]: 'a man'") as error:
        filler.fill(["a [MASK]", "a man"])
    assert "A man is [MASK] a guitar." in error.value.hint
