from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.decode import scoring
from seqloom.decode.config import SearchConfig
from seqloom.decode.scoring import ForcedScorer, MaskedScorer, SequenceScore, Totals
from seqloom.errors import SeqloomError
from seqloom.models.base import SequenceModel
from seqloom.text.config import MASK, TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK, Batch, Step, StepModel, Tree
from support.tokenizers import char_tokenizers

WIDTH = 4


class Texts(SequenceModel):
    """Trivial model: the hidden vector at a position depends only on the token there."""

    def __init__(self, size: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(size, WIDTH)
        self.output = nn.Linear(WIDTH, size)
        self.shapes: list[torch.Size] = []

    def hidden(self, batch: Batch) -> Tensor:
        vectors: Tensor = self.embedding(batch.source if batch.target_in is None else batch.target_in)
        self.shapes.append(vectors.shape[:2])
        return vectors


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return char_tokenizers("abc cab", "cba bac", symbols=(MASK,))


PAIRS = [("", text) for text in ("abc", "a", "cab bac", "", "b a", "ccccccccc")]


@pytest.mark.parametrize("kind", [ForcedScorer, MaskedScorer])
def test_the_score_does_not_depend_on_the_other_lines(tokenizers: TokenizerPair, kind: Any) -> None:
    scorer = kind(Texts(tokenizers.target.size), tokenizers, SearchConfig())
    together = scorer.score(PAIRS)
    for pair, score in zip(PAIRS, together, strict=True):
        (alone,) = scorer.score([pair])
        assert alone.tokens == score.tokens == tuple(pair[1].replace(" ", "▁"))
        assert alone.log_probs == pytest.approx(score.log_probs, abs=1e-6)


@pytest.mark.parametrize("kind", [ForcedScorer, MaskedScorer])
def test_batches_stay_within_the_budget_and_progress_adds_up(tokenizers: TokenizerPair, kind: Any) -> None:
    model, seen = Texts(tokenizers.target.size), list[int]()
    kind(model, tokenizers, SearchConfig(batch_tokens=40)).score(PAIRS, on_progress=seen.append)
    assert sum(seen) == len(PAIRS)
    assert len(model.shapes) > 1
    assert all(shape.numel() <= 40 for shape in model.shapes)


def test_few_logits_at_a_time_give_the_same_scores(
    tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = ForcedScorer(Texts(tokenizers.target.size), tokenizers, SearchConfig())
    whole = scorer.score(PAIRS)
    monkeypatch.setattr(scoring, "_LOGITS", 1)
    for one, other in zip(whole, scorer.score(PAIRS), strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-6)


def test_no_lines_give_no_scores(tokenizers: TokenizerPair) -> None:
    model = Texts(tokenizers.target.size)
    assert ForcedScorer(model, tokenizers, SearchConfig()).score([]) == []
    assert MaskedScorer(model, tokenizers, SearchConfig()).score([]) == []


def test_unknown_tokens_are_counted(tokenizers: TokenizerPair) -> None:
    scorer = ForcedScorer(Texts(tokenizers.target.size), tokenizers, SearchConfig())
    (score,) = scorer.score([("", "axbya")])
    assert score.unknown == tokenizers.target.encode("axbya").count(UNK) == 2


def test_the_beam_of_the_run_does_not_affect_batches(tokenizers: TokenizerPair) -> None:
    """Scoring needs one row per line, so the batch size does not depend on the beam."""
    models = {beam: Texts(tokenizers.target.size) for beam in (1, 7)}
    for beam, model in models.items():
        ForcedScorer(model, tokenizers, SearchConfig(batch_tokens=60, beam=beam)).score(PAIRS)
    assert models[1].shapes == models[7].shapes


def test_a_tree_that_does_not_fit_is_an_error(tokenizers: TokenizerPair) -> None:
    scorer = ForcedScorer(Texts(tokenizers.target.size), tokenizers, SearchConfig())
    with pytest.raises(SeqloomError, match="Pair 2 of 2 has an invalid dependency tree: the number of heads"):
        scorer.score([("a b", "a"), ("a b", "a")], heads=[(2, 0), (0,)])


def test_a_score_is_a_sum() -> None:
    score = SequenceScore(("a", "b"), (-1.0, -2.0, -0.5))
    assert (score.log_prob, score.mean, score.ends) == (-3.5, pytest.approx(-3.5 / 3), 1)
    assert SequenceScore(("a",), (-1.0,)).ends == 0
    assert SequenceScore((), ()).mean == 0


def test_totals_of_nothing_and_of_impossible_texts() -> None:
    assert Totals().perplexity(0) == 1
    totals = Totals()
    totals.add("a", SequenceScore(("a",), (-1e6, -1e6)))
    assert totals.perplexity(totals.tokens) == math.inf


def test_a_masked_scorer_needs_the_mask_symbol() -> None:
    plain = TokenizerPair.train(TextConfig(tokenizer="char"), lambda: [("a", "a")])
    with pytest.raises(Exception, match=r"does not have the symbol \[MASK\]"):
        MaskedScorer(SimpleNamespace(), plain, SearchConfig())


class Steps(StepModel):
    """The model `Texts` as a step-by-step model."""

    def __init__(self, model: Texts) -> None:
        self.model = model

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return None, None

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        return Step(self.model.output(self.model.embedding(last)).log_softmax(-1), state, None)


def test_a_model_without_hidden_vectors_is_scored_step_by_step(tokenizers: TokenizerPair) -> None:
    model = Texts(tokenizers.target.size)
    at_once, by_steps = (
        ForcedScorer(one, tokenizers, SearchConfig()).score(PAIRS) for one in (model, Steps(model))
    )
    for a, b in zip(at_once, by_steps, strict=True):
        assert a.tokens == b.tokens
        assert a.log_probs == pytest.approx(b.log_probs, abs=1e-6)
