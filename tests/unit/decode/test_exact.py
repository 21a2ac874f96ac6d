"""Exact search with a translator, compared with an enumeration of all outputs."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest

from seqloom.decode.config import SearchConfig
from seqloom.decode.ranking import Ranking
from seqloom.decode.strategies import ExactSearch
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, Batch, Request, Tree
from support.step_models import TableModel
from support.tokenizers import char_tokenizers
from support.translators import opened

LINES = ["a", "b", "", "c", "ab", "ca", "cc"]


class Random(TableModel):
    """StepModel with random log-probabilities for each (source, step, last token)."""

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        _, state = super().start(batch)
        return batch.source[:, :2].sum(dim=1) % len(self.log_probs), state


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return char_tokenizers("abc", "cba")


def translator(tokenizers: TokenizerPair, **search: Any) -> TorchTranslator:
    size = tokenizers.target.size
    model = Random.random(size, 6, size, size, seed=1, scale=1.5)
    return TorchTranslator(model, tokenizers, SearchConfig(**{"longest": 4, "beam": 1, **search}))


def enumerated(one: TorchTranslator, line: str, *, forbidden: int | None = None) -> tuple[float, str]:
    """Return the best (score, text) of all sequences that end within four tokens."""
    model, search = one.model, one.search
    assert isinstance(model, Random)
    memory, _ = model.start(one.problem(Request(line), search).sentence)
    ranking = Ranking(search.length_norm, search.length_penalty)
    found = []
    words = [token for token in range(EOS + 1, one.tokenizers.target.size) if token != forbidden]
    for length in range(4):
        for tokens in product(words, repeat=length):
            steps = enumerate(pairwise([BOS, *tokens, EOS]))
            total = sum(float(model.log_probs[memory[0], t, last, token]) for t, (last, token) in steps)
            found.append((ranking.score(total, length + 1), one.tokenizers.target.decode(list(tokens))))
    return max(found)


@pytest.mark.parametrize(
    "search", [{"length_norm": "none"}, {}, {"length_norm": "gnmt", "length_penalty": 0.6}]
)
def test_the_output_is_the_best_of_all(tokenizers: TokenizerPair, search: dict[str, Any]) -> None:
    one = translator(tokenizers, **search)
    outputs = ExactSearch().translate(one, LINES)
    greedy = one.translate(LINES)
    improved = 0
    for line, (output,), (first,) in zip(LINES, outputs, greedy, strict=True):
        if not line:
            assert output.text == ""
            continue
        score, text = enumerated(one, line)
        assert (output.text, output.score) == (text, pytest.approx(score, abs=1e-5))
        assert "unproven" not in output.flags
        improved += output.text != first.text
    assert improved  # otherwise a greedy search would pass this test


def test_an_output_without_proof_is_flagged_and_at_least_as_good_as_that_of_the_beam(
    tokenizers: TokenizerPair,
) -> None:
    one = translator(tokenizers)
    outputs = ExactSearch(expand=2).translate(one, LINES)
    assert any("unproven" in output.flags for (output,) in outputs)
    for line, (output,), (first,) in zip(LINES, outputs, one.translate(LINES), strict=True):
        assert (output.finished, output.score) >= (first.finished, first.score - 1e-6)
        if line and "unproven" not in output.flags:
            assert output.score == pytest.approx(enumerated(one, line)[0], abs=1e-5)


def test_output_constraints_apply(tokenizers: TokenizerPair) -> None:
    one = translator(tokenizers, forbid=("a",))
    (token,) = one.tokenizers.target.encode("a")
    for line, (output,) in zip(LINES, ExactSearch().translate(one, LINES), strict=True):
        assert not line or output.text == enumerated(one, line, forbidden=token)[1]
    prefixed = ExactSearch().translate(one, [Request("a", prefix="b")])
    assert prefixed[0][0].text.startswith("b")


def test_an_ensemble_of_models_with_different_tokenizers() -> None:
    with opened("ensemble") as one:
        (output,) = ExactSearch(expand=1).translate(one, ["the old cat hides the dog ."])[0]
        (first,) = one.translate("the old cat hides the dog .")
    assert output.score >= first.score - 1e-5


@pytest.mark.parametrize("name", ["phrase", "ctranslate2"])
def test_other_translators_are_refused(name: str) -> None:
    with opened(name) as one, pytest.raises(SeqloomError, match="exact search"):
        ExactSearch().translate(one, ["the cat"])


def test_what_it_does_not_support_is_refused(tokenizers: TokenizerPair) -> None:
    one = translator(tokenizers)
    with pytest.raises(SeqloomError, match="alignments"):
        ExactSearch().translate(one, ["a"], alignment=True)
    with pytest.raises(SeqloomError, match="required words"):
        ExactSearch().translate(one, [Request("a", required=("b",))])
    with pytest.raises(SeqloomError, match="required words"):
        ExactSearch().translate(one.with_search({"require": ["b"]}), ["a"])
    with pytest.raises(SeqloomError, match=r"search.stop_after has no effect with the strategy exact"):
        ExactSearch().check_options({"stop_after": 3})
