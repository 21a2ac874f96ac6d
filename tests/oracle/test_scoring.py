"""Scores against NumPy over `step`, one sentence and one token at a time; counts by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqloom.data.batching import collate_ids
from seqloom.data.syntax import token_heads
from seqloom.decode.config import SearchConfig
from seqloom.decode.scoring import ForcedScorer, MaskedScorer, Totals
from seqloom.text.config import MASK, TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS
from support.step_models import FITTED, fitted, random_model, reads_frames

LINES = ["a bad cab", "", "cab", "dada bad a cab a dad", "b", "d a b"]
PAIRS = [("ab", "bad cab"), ("c", ""), ("dabba", "a"), ("a b c d", "cab a dad bad"), ("b", "b b"), ("", "dad")]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    text = TextConfig(tokenizer="bpe", vocab_size=30, byte_fallback=False)
    return TokenizerPair.train(text, lambda: [("a bad cab dad", "dada bad cab")] * 30, symbols=(MASK,))


def _model(name: str, tokenizers: TokenizerPair) -> Any:
    size = tokenizers.target.size
    model = random_model(name, size, seed=3)
    with torch.no_grad():  # peaked distributions, so that a wrong position or token is noticed
        model.output.bias.copy_(torch.linspace(-1.5, 1.5, size))
    return model


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    highest = logits.max()
    return logits - (highest + np.log(np.exp(logits - highest).sum()))


def _stepped(
    model: Any, tokenizers: TokenizerPair, source: str, target: str, tree: tuple[int, ...] | None = None
) -> list[float]:
    """Return log p of each target token and of the end, computed by `step`."""
    ids = tokenizers.source.encode(source)
    heads = None if tree is None else [token_heads(tokenizers.source, ids, tree)]
    memory, state = model.start(collate_ids([ids], None, [0], heads))
    last, values = BOS, []
    for token in [*tokenizers.target.encode(target), EOS]:
        step = model.step(memory, state, torch.tensor([last]))
        values.append(float(step.log_probs.detach().numpy()[0, token]))
        last, state = token, step.state
    return values


@pytest.mark.parametrize("budget", [1, 60, 10_000])
@pytest.mark.parametrize(
    "name, pairs",
    [
        ("lm", [("", line) for line in LINES]),
        ("lm", PAIRS),
        ("prefix-lm", PAIRS),
        ("transformer", PAIRS),
        ("lstm-bilinear", PAIRS),
    ],
)
def test_teacher_forcing_equals_steps(
    tokenizers: TokenizerPair, name: str, pairs: list[tuple[str, str]], budget: int
) -> None:
    model = _model(name, tokenizers)
    scores = ForcedScorer(model, tokenizers, SearchConfig(batch_tokens=budget)).score(pairs)
    for (source, target), score in zip(pairs, scores, strict=True):
        expected = _stepped(model, tokenizers, source, target)
        assert score.log_probs == pytest.approx(expected, abs=1e-9)
        assert score.log_prob == pytest.approx(math.fsum(expected), abs=1e-9)
        assert score.tokens == tuple(tokenizers.target.pieces(tokenizers.target.encode(target)))
        assert score.ends == 1


TAGGED = [("a b", "X Y"), ("d", "Z"), ("a c d b", "X Y Z X"), ("", "")]


@pytest.mark.parametrize("budget", [1, 10_000])
@pytest.mark.parametrize("name", [name for name in FITTED if not reads_frames(name)])
def test_scores_of_a_fitted_model_equal_its_steps(name: str, budget: int) -> None:
    model, tokenizers = fitted(name).model, fitted(name).tokenizers
    scores = ForcedScorer(model, tokenizers, SearchConfig(batch_tokens=budget)).score(TAGGED)
    for (source, target), score in zip(TAGGED, scores, strict=True):
        expected = _stepped(model, tokenizers, source, target)
        assert score.log_probs == pytest.approx(expected, abs=1e-5)
        assert all(value <= 0 for value in score.log_probs)


def test_a_model_that_reads_trees_gets_them(tokenizers: TokenizerPair) -> None:
    model, pairs = _model("transformer-syntax", tokenizers), [("a bad cab", "dad"), ("cab", "a bad")]
    trees: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((2, 0, 2), (0,)), ((0, 1, 2), (0,))]
    found = []
    for heads in trees:
        scores = ForcedScorer(model, tokenizers, SearchConfig()).score(pairs, heads=heads)
        for (source, target), tree, score in zip(pairs, heads, scores, strict=True):
            expected = _stepped(model, tokenizers, source, target, tree)
            assert score.log_probs == pytest.approx(expected, abs=1e-9)
        found.append(scores[0].log_prob)
    assert abs(found[0] - found[1]) > 1e-6  # a different tree gives a different score


@pytest.mark.parametrize("budget", [1, 60, 10_000])
def test_a_masked_model_masks_each_token_in_turn(tokenizers: TokenizerPair, budget: int) -> None:
    model, tokenizer = _model("mlm", tokenizers), tokenizers.source
    pairs = [("", line) for line in LINES]
    scores = MaskedScorer(model, tokenizers, SearchConfig(batch_tokens=budget)).score(pairs)
    for line, score in zip(LINES, scores, strict=True):
        ids = tokenizer.encode(line)
        expected = []
        for place, token in enumerate(ids):
            hidden = [*ids[:place], tokenizer.symbol(MASK), *ids[place + 1 :]]
            logits = model(collate_ids([hidden], None, [0])).detach().numpy()[0, place]
            expected.append(float(_log_softmax(logits)[token]))
        assert score.log_probs == pytest.approx(expected, abs=1e-9)
        assert score.ends == 0


def test_perplexities_equal_those_computed_by_hand(tokenizers: TokenizerPair) -> None:
    model = _model("lm", tokenizers)
    lines = ["a bad cab", "cäb  dad", "d"]
    totals = Totals()
    for line, score in zip(
        lines, ForcedScorer(model, tokenizers, SearchConfig()).score([("", x) for x in lines]), strict=True
    ):
        totals.add(line, score)
    log_probs = [value for line in lines for value in _stepped(model, tokenizers, "", line)]
    total = sum(log_probs)
    assert (totals.lines, totals.tokens) == (3, len(log_probs))
    assert totals.words == 3 + 2 + 1 + 3  # plus three ends
    assert totals.bytes == len("a bad cab\ncäb  dad\nd\n".encode()) == 9 + 9 + 1 + 3  # ä is two bytes
    assert totals.log_prob == pytest.approx(total)
    assert totals.perplexity(totals.tokens) == pytest.approx(math.exp(-total / len(log_probs)))
    assert totals.perplexity(totals.words) == pytest.approx(math.exp(-total / 9))
    assert totals.bits_per_byte == pytest.approx(math.log2(totals.perplexity(totals.bytes)))
    assert totals.unknown == 1


def test_a_masked_model_does_not_count_ends(tokenizers: TokenizerPair) -> None:
    (score,) = MaskedScorer(_model("mlm", tokenizers), tokenizers, SearchConfig()).score([("", "bad cab")])
    totals = Totals()
    totals.add("bad cab", score)
    assert (totals.tokens, totals.words, totals.bytes) == (len(score.tokens), 2, 7)
