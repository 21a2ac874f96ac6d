"""Shortlists: their tokens, their file, and translators that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.ensemble import EnsembleTranslator
from seqloom.decode.options import DecodedSequence
from seqloom.decode.rules import Rules
from seqloom.decode.shortlist import Shortlist, VocabularySubset, special_tokens
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, UNK, Request, StepModel
from support.step_models import random_model
from support.tokenizers import char_tokenizers

LINES = ["abcd", "d", "", "bad cab", "a b c d"]
N = 2


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return char_tokenizers("abcd dcab", "efgh hgef abcd")


@pytest.fixture(scope="module")
def table(tokenizers: TokenizerPair) -> Shortlist:
    """Return a table where each letter may become the next two tokens; end and unknown are always allowed."""
    size = tokenizers.target.size
    translations = torch.full((tokenizers.source.size, N), UNK)
    for token in range(UNK + 1, size):
        translations[token] = torch.tensor([token, UNK + 1 + (token - UNK) % (size - UNK - 1)])
    return Shortlist(torch.tensor([EOS, UNK]), translations, size)


def _translator(tokenizers: TokenizerPair, table: Shortlist | None, **search: Any) -> TorchTranslator:
    model = random_model("transformer", tokenizers.vocabularies, seed=5)
    with torch.no_grad():
        model.output.weight.mul_(3)
    options = SearchConfig(shortlist=True, max_length_extra=4, max_length_factor=1, **search)
    return TorchTranslator(model, tokenizers, options, shortlist=None if table is None else lambda: table)


def test_a_shortlist_has_translations_of_its_source_and_additional_tokens(table: Shortlist) -> None:
    allowed = table.allowed(torch.tensor([[5, 6, EOS], [7, EOS, PAD]]), [[BOS], [4]])
    assert [row.nonzero().squeeze(1).tolist() for row in allowed] == [[2, 3, 5, 6, 7], [2, 3, 4, 7, 8]]


def test_all_bytes_are_special_and_words_are_not() -> None:
    text = TextConfig(tokenizer="word", vocab_size=1000, byte_fallback=True)
    tokenizer = TokenizerPair.train(text, lambda: [("a b", "b c")] * 5).target
    special = special_tokens(tokenizer)
    assert len(special) == 2 + 256
    assert set(tokenizer.encode("ж")[-2:]) <= set(special)  # two bytes
    assert set(tokenizer.encode("a b c")).isdisjoint(special)


def test_a_saved_table_is_unchanged(table: Shortlist, tokenizers: TokenizerPair, tmp_path: Path) -> None:
    table.save(tmp_path / "shortlist", tokenizers)
    again = Shortlist.load(tmp_path / "shortlist", tokenizers)
    assert again.digest == table.digest
    assert again.size == table.size
    assert torch.equal(again.translations, table.translations)


def test_a_damaged_table_is_named(table: Shortlist, tokenizers: TokenizerPair, tmp_path: Path) -> None:
    table.save(tmp_path, tokenizers)
    file = tmp_path / "table.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(SeqloomError, match=r"shortlist .*table\.safetensors is damaged"):
        Shortlist.load(tmp_path, tokenizers)
    file.write_bytes(b"")
    with pytest.raises(SeqloomError, match="is damaged"):
        Shortlist.load(tmp_path, tokenizers)


def test_a_table_of_other_tokenizers_is_refused(
    table: Shortlist, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    others = TokenizerPair.train(TextConfig(tokenizer="char"), lambda: [("xyz", "xyz")] * 20)
    table.save(tmp_path, others)
    with pytest.raises(SeqloomError, match="other tokenizers"):
        Shortlist.load(tmp_path, tokenizers)
    too_high = Shortlist(torch.tensor([EOS, 10_000]), table.translations, table.size)
    too_high.save(tmp_path, tokenizers)
    with pytest.raises(SeqloomError, match="other tokenizers"):
        Shortlist.load(tmp_path, tokenizers)


def test_ids_round_trip_through_the_subset() -> None:
    allowed = torch.zeros(2, 12, dtype=torch.bool)
    allowed[0, [2, 3, 7]], allowed[1, [2, 3, 9]] = True, True
    choice = VocabularySubset(allowed)
    assert choice.to_subset([9, 7, 2]) == (5, 4, 2)
    assert choice.to_subset([8]) is None
    rules = choice.rules(Rules(prefixes=[[7], []], forbidden=[[9, 7], [9, 8]], min_length=3))
    assert rules == Rules(prefixes=[(4,), ()], forbidden=[(5, 4)], min_length=3)
    found = DecodedSequence([5, 4, 3], [-1.0] * 4, -4.0, True, None)
    assert choice.to_full(found).tokens == [9, 7, 3]


@pytest.mark.parametrize("beam", [1, 4])
def test_an_output_does_not_depend_on_its_batch(table: Shortlist, tokenizers: TokenizerPair, beam: int) -> None:
    translator = _translator(tokenizers, table, beam=beam)
    together = translator.translate(LINES)
    for line, (found,) in zip(LINES, together, strict=True):
        ((alone,),) = translator.translate([line])
        assert (alone.text, alone.tokens) == (found.text, found.tokens)
        assert alone.token_log_probs == pytest.approx(found.token_log_probs, abs=1e-9)
        mask = table.allowed(torch.tensor([[*tokenizers.source.encode(line), EOS]]))[0]
        assert all(mask[tokenizers.target.encode(found.text)]) or UNK in found.tokens


def test_samples_do_not_depend_on_their_batch(table: Shortlist, tokenizers: TokenizerPair) -> None:
    translator, options = _translator(tokenizers, table), SamplingConfig(samples=3, temperature=9)
    prefixes = ["", "h", "", "gg", "e"]  # their new ids depend on the batch, but the samples do not
    requests = [Request(line, prefix) for line, prefix in zip(LINES, prefixes, strict=True)]
    together = translator.sample(requests, options)
    for line, prefix, found in zip(LINES, prefixes, together, strict=True):
        (alone,) = translator.sample([Request(line, prefix)], options)
        assert [one.tokens for one in alone] == [one.tokens for one in found]
        assert all(one.text.startswith(prefix) for one in found if line)


def test_prefixes_and_required_words_may_be_outside_the_shortlist(
    table: Shortlist, tokenizers: TokenizerPair
) -> None:
    translator = _translator(tokenizers, table, beam=3)
    ((begun,), (other,)) = translator.translate([Request("a", "hh"), Request("b", "g")])
    assert begun.text.startswith("hh") and other.text.startswith("g")
    ((best,), _) = translator.translate([Request("a", required=("hg",)), "b"])
    assert "hg" in best.text
    ((without,),) = _translator(tokenizers, table, beam=3, forbid=("h", "a")).translate([Request("a", "e")])
    assert without.text.startswith("e") and not set("ha") & set(without.text)


def test_a_missing_table_is_an_error(tokenizers: TokenizerPair) -> None:
    with pytest.raises(SeqloomError, match="This model has no shortlist"):
        _translator(tokenizers, None).translate(["a"])


class NoOutput(StepModel):
    def start(self, batch: Any) -> Any: ...

    def step(self, memory: Any, state: Any, last: Any) -> Any: ...


def test_a_model_without_an_output_layer_is_refused(table: Shortlist, tokenizers: TokenizerPair) -> None:
    search = SearchConfig(shortlist=True)
    translator = TorchTranslator(NoOutput(), tokenizers, search, shortlist=lambda: table)
    with pytest.raises(SeqloomError, match="output layer"):
        translator.translate(["a"])


@pytest.mark.parametrize("space", ["probability", "log"])
def test_members_of_an_ensemble_share_a_shortlist(
    table: Shortlist, tokenizers: TokenizerPair, space: Any
) -> None:
    one = _translator(tokenizers, table, beam=2)
    both = EnsembleTranslator([one, one], space=space)
    for (alone,), (voted,) in zip(one.translate(LINES), both.translate(LINES), strict=True):
        assert voted.text == alone.text
        assert voted.log_prob == pytest.approx(alone.log_prob, abs=1e-9)


def test_members_with_different_shortlists_are_refused(table: Shortlist, tokenizers: TokenizerPair) -> None:
    other = Shortlist(torch.tensor([EOS, UNK, UNK + 1]), table.translations, table.size)
    members = [_translator(tokenizers, table), _translator(tokenizers, other)]
    with pytest.raises(SeqloomError, match="have different shortlists"):
        EnsembleTranslator(members).translate(["a"])
