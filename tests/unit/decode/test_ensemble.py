"""Ensembles: the mean of several distributions, in either space."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.ensemble import Ensemble, EnsembleTranslator
from seqloom.decode.options import BeamOptions, beam_options
from seqloom.decode.rules import Rules
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, Request, Vocabularies, select_rows
from support.step_models import random_model
from support.tokenizers import char_tokenizers

NAMES = ("transformer", "lstm-bilinear", "lstm-last")
SOURCES = [[4, 5, 6], [7, 8]]


def member(name: str, seed: int = 1, source: int = 12) -> Any:
    return random_model(name, Vocabularies(source, 12, source == 12), seed, width=16)


def first_steps(model: Any, tokens: list[int]) -> list[torch.Tensor]:
    memory, state = model.start(collate_ids(SOURCES, None, range(2)))
    found = []
    for token in tokens:
        step = model.step(memory, state, torch.full((2,), token))
        state = step.state
        found.append(step.log_probs.clone())
    return found


@pytest.mark.parametrize("space", ["probability", "log"])
def test_the_distribution_is_the_weighted_mean(space: Any) -> None:
    members = [member(name) for name in NAMES]
    weights = [1.0, 2.0, 5.0]
    ensemble = Ensemble(members, weights=weights, space=space)
    each = [first_steps(one, [BOS, 5, 9]) for one in members]
    for t, together in enumerate(first_steps(ensemble, [BOS, 5, 9])):
        if space == "probability":
            expected = sum(w / 8 * one[t].exp() for w, one in zip(weights, each, strict=True))
        else:
            product = sum(w / 8 * one[t] for w, one in zip(weights, each, strict=True))
            expected = product.exp() / product.exp().sum(-1, keepdim=True)  # type: ignore[union-attr]
        assert_close(together.exp(), expected)


def test_an_ensemble_of_equal_models_equals_one_model() -> None:
    alone = member("transformer")
    batch = collate_ids(SOURCES, None, range(2))
    both = (alone, Ensemble([alone, alone]))
    one, two = (beam_search(model, batch, BeamOptions(3), max_lengths=[6, 6]) for model in both)
    assert [[f.tokens for f in found] for found in one] == [[f.tokens for f in found] for found in two]
    assert [f.score for f in one[0]] == pytest.approx([f.score for f in two[0]])


def test_rows_can_be_selected_across_members() -> None:
    ensemble = Ensemble([member(name) for name in NAMES])
    memory, state = ensemble.start(collate_ids(SOURCES, None, range(2)))
    rows = torch.tensor([0, 0, 1, 1])
    step = ensemble.step(memory, select_rows(state, rows), torch.tensor([1, 1, 1, 1]))
    assert_close(step.log_probs[0], step.log_probs[1])
    assert step.attention is not None
    assert_close(step.attention.sum(-1), torch.ones(4, 1, 1, dtype=torch.float64))


def test_members_may_have_their_own_source_tokenizers() -> None:
    first, second = member("transformer"), member("lstm-bilinear", source=40)
    other = collate_ids([[30, 31, 32, 33, 34], [35]], None, range(2))
    ensemble = Ensemble([first, second], other_batches=[other])
    together = first_steps(ensemble, [BOS])[0]
    memory, state = second.start(other)
    theirs = second.step(memory, state, torch.full((2,), BOS)).log_probs
    assert_close(together.exp(), (first_steps(first, [BOS])[0].exp() + theirs.exp()) / 2)


LINES = ["abc", "", "cab bac a", "b"]
SEARCH = SearchConfig(beam=3, longest=6)


def pair(sources: str) -> TokenizerPair:
    """Return character tokenizers with the same target vocabulary."""
    return char_tokenizers(sources, "abc cab", joint=False)


def translator(name: str, tokenizers: TokenizerPair, seed: int = 1) -> TorchTranslator:
    vocabularies = Vocabularies(tokenizers.source.size, tokenizers.target.size, False)
    return TorchTranslator(random_model(name, vocabularies, seed, width=16), tokenizers, SEARCH)


def texts(found: Any) -> list[list[tuple[str, float]]]:
    return [[(one.text, pytest.approx(one.score)) for one in many] for many in found]


def test_an_ensemble_of_equal_translators_equals_one_translator() -> None:
    alone = translator("transformer", pair("abc cab"))
    both = EnsembleTranslator([alone, alone])
    assert texts(both.translate(LINES, nbest=2)) == texts(alone.translate(LINES, nbest=2))
    assert both.search is alone.search


def test_a_member_uses_its_own_tokenizer_in_any_batch() -> None:
    wide = pair("abc cab xyz uvw")  # more characters, so different ids
    first, second = translator("transformer", pair("abc cab")), translator("lstm-bilinear", wide, seed=2)
    assert first.tokenizers.source.encode("cab") != wide.source.encode("cab")
    both = EnsembleTranslator([first, second])
    (alone,) = both.translate(["cab bac a"], nbest=3)
    for budget in (1, 10_000):  # one line per batch, or all lines in one
        found = both.with_search({"batch_tokens": budget}).translate(LINES, nbest=3)
        assert texts(found)[2] == texts([alone])[0]
    batches = [one.batch(one.encode([Request("cab bac a")], SEARCH)) for one in (first, second)]
    model = Ensemble([first.model, second.model], other_batches=[batches[1]])
    (expected,) = beam_search(model, batches[0], beam_options(SEARCH, Rules()), max_lengths=[6])
    assert [one.score for one in alone] == pytest.approx([one.score for one in expected[:3]])


def test_an_ensemble_supports_sampling() -> None:
    tokenizers = pair("abc cab")
    both = EnsembleTranslator([translator("transformer", tokenizers), translator("lstm-last", tokenizers)])
    found = both.sample(LINES, SamplingConfig(samples=3))
    assert [len(many) for many in found] == [3, 1, 3, 3]
