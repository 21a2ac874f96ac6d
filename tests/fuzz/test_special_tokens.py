"""Text that looks like a control symbol is encoded as text."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import strategies as st

from seqloom.decode.mask_filling import Filler
from seqloom.errors import SeqloomError
from seqloom.run.load import load, load_filler, load_scorer
from seqloom.text.config import MASK, Kind
from seqloom.text.marian import MarianTokenizer, as_marian
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, PAD, UNK

# Names of all special pieces, the space mark, and reserved names of other programs.
SPECIALS = [
    *("<s>", "</s>", "<pad>", "<unk>", "<0x0A>", "<0xE2>", "▁", MASK, "⁇", "▅", "\ue009"),
    *("<2de>", ">>fra<<", "<|endoftext|>", "[CLS]", "[SEP]", "<mask>", "<extra_id_0>", "<unused-7>", "\x00"),
]
TEXTS = st.lists(st.sampled_from([*SPECIALS, "a", " ", "man", "é"]), min_size=1, max_size=6).map("".join)


@cache
def tokenizer(kind: Kind, *, bytes: bool) -> Tokenizer:
    """Return a tokenizer trained on text that contains such words, with [MASK] as a symbol."""
    lines = ["a man is a man", "ein Mann", *(f"a {special} b" for special in SPECIALS), "".join(SPECIALS)] * 3
    return Tokenizer.train(
        lines,
        kind=kind,
        vocab_size=400,
        normalize="none",
        lowercase=False,
        collapse_spaces=False,
        byte_fallback=bytes,
        tags=(MASK,),
    )


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("bytes", [True, False])
def test_no_text_is_a_control_symbol(kind: Kind, bytes: bool, fuzz: Any) -> None:
    one = tokenizer(kind, bytes=bytes)
    controls = {PAD, BOS, EOS, one.symbol(MASK), *([UNK] if bytes else [])}

    def check(text: str) -> None:
        ids = one.encode(text)
        assert controls.isdisjoint(ids)
        assert one.encode_batch([text, "a", text], 1) == [ids, one.encode("a"), ids]
        assert len(one.surfaces(text)) == len(ids)
        if bytes:
            assert one.decode(ids) == text

    for special in SPECIALS:
        for text in (special, f"a {special} b", special * 2, f"x{special}x"):
            check(text)
    fuzz(TEXTS, check)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_no_text_is_a_control_symbol_for_marian_tokenizers(kind: Kind, fuzz: Any) -> None:
    one: MarianTokenizer = as_marian(tokenizer(kind, bytes=True))

    def check(text: str) -> None:
        assert {PAD, BOS, EOS}.isdisjoint(one.encode(text))

    for special in SPECIALS:
        check(f"a {special} b")
    fuzz(TEXTS, check)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_mask_is_the_symbol_only_with_gaps(kind: Kind) -> None:
    one = tokenizer(kind, bytes=True)
    mask = one.symbol(MASK)
    assert mask not in one.encode(f"a {MASK} b")
    filler = object.__new__(Filler)
    filler.tokenizer, filler.mask = one, mask
    assert Filler.encode(filler, f"a {MASK} b").ids.count(mask) == 1
    assert mask not in one.encode(f"a {MASK} b")  # with_gaps does not change the original


@pytest.mark.parametrize("special", SPECIALS)
def test_translations_and_scores(special: str, runs: Path) -> None:
    """A line that contains a special name is one line, with one output and one probability."""
    text = f"1 {special} 2"
    translator = load(runs / "transformer", device="cpu")
    plain, strange = translator.translate(["1 2", text])
    assert plain[0].text == translator.translate(["1 2"])[0][0].text
    assert len(strange) >= 1
    for model, pair in (("transformer", ("1 2", text)), ("word-mlm", ("", text)), ("ngram", ("", text))):
        scorer = load_scorer(runs / model, device="cpu")
        (score,) = scorer.score([pair])
        (whole,) = scorer.score([(pair[0], "1 x 2")])
        assert len(score.log_probs) >= len(whole.log_probs)  # the word is encoded and does not end the line


def test_a_text_to_fill_may_contain_special_names(runs: Path) -> None:
    filler = load_filler(runs / "word-mlm", device="cpu")
    for special in (one for one in SPECIALS if one != MASK):
        (filled,) = filler.fill([f"1 {special} {MASK} 2"])
        assert len(filled.gaps) == 1


def test_a_gap_within_a_word_is_rejected_for_word_tokens(runs: Path) -> None:
    filler = load_filler(runs / "word-mlm", device="cpu")
    with pytest.raises(SeqloomError, match=r"Text 2 has a \[MASK\] inside a word.*'1 \[MASK\]1'") as caught:
        filler.fill(["1 [MASK]", "1 [MASK]1"])
    assert caught.value.hint == "put spaces around [MASK]"
