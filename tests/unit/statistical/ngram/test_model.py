"""Tests of the registered model: fit to a token store, step by step probabilities."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from seqloom.data.batching import collate_ids
from seqloom.data.encoding import Numericalizer
from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.registry import architecture
from seqloom.statistical.base import FitData
from seqloom.statistical.ngram.model import NgramModel, NgramSettings
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, Example, select_rows

TEXTS = ["a b c", "a b", "b c a b", "c", "a a b c", "b b c"] * 3
HELD_OUT = ["a b b", "c a"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> FitData:
    folder = tmp_path_factory.mktemp("ngram")
    text = TextConfig(tokenizer="word", byte_fallback=False)
    tokenizers = TokenizerPair.train(text, lambda: ((line, "") for line in TEXTS))

    def store(name: str, lines: list[str]) -> TokenStore:
        examples = (Example(line) for line in lines)
        return TokenStore.write(folder / name, examples, Numericalizer(tokenizers, max_length=9, long="error"))

    examples = [Example(line) for line in HELD_OUT]
    return FitData(tokenizers, store("train", TEXTS), store("valid", HELD_OUT), lambda: iter(examples))


def fitted(data: FitData, order: int) -> NgramModel:
    model = NgramModel(NgramSettings(order=order), data.tokenizers.vocabularies)
    model.fit(data)
    return model


def test_metrics_are_perplexity_and_sizes(data: FitData, messages: list[str]) -> None:
    model = NgramModel(NgramSettings(order=3), data.tokenizers.vocabularies)
    figures = model.fit(data)
    scores = [s for line in HELD_OUT for s in model.ngrams.score(data.tokenizers.target.encode(line))]
    assert figures["perplexity"] == pytest.approx(math.exp(-sum(scores) / len(scores)))
    assert [figures[f"{n}-grams"] for n in (1, 2, 3)] == [len(level) for level in model.ngrams.levels]
    assert messages == model.ngrams.notes and "too few" in messages[0]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_step_matches_the_tables(data: FitData, order: int) -> None:
    model = fitted(data, order)
    memory, state = model.start(collate_ids([[], []], None, [0, 1]))
    rows = torch.tensor([[BOS, 4, 5, 6, 4, EOS], [BOS, 6, 6, 4, 5, 5]])
    for place, last in enumerate(rows.T):
        before = state.clone()
        log_probs, new, _ = model.step(memory, state, last)
        assert torch.equal(state, before) and new.shape == (2, order - 1)
        for row in range(2):
            context = tuple(rows[row, : place + 1].tolist())
            expected = [model.ngrams.log_prob(context, word)[0] for word in range(model.vocabulary)]
            assert log_probs[row].tolist() == pytest.approx(expected, rel=1e-5)
        state = new


def test_rows_can_be_selected(data: FitData) -> None:
    model = fitted(data, 3)
    memory, state = model.start(collate_ids([[]], None, [0]))
    state = model.step(memory, state, torch.tensor([BOS])).state
    state = model.step(memory, select_rows(state, torch.tensor([0, 0])), torch.tensor([4, 5])).state
    swapped = model.step(memory, select_rows(state, torch.tensor([1, 0])), torch.tensor([6, 6])).log_probs
    assert torch.equal(swapped, model.step(memory, state, torch.tensor([6, 6])).log_probs[[1, 0]])
    assert not torch.equal(swapped[0], swapped[1])
    assert state.tolist() == [[BOS, 4], [BOS, 5]] and PAD not in state


def test_state_dict_round_trip(data: FitData) -> None:
    model, again = fitted(data, 3), NgramModel(NgramSettings(order=3), data.tokenizers.vocabularies)
    again.load_state_dict(model.state_dict())
    assert again.ngrams.score([4, 5, 6]) == model.ngrams.score([4, 5, 6])


def test_targets_of_pairs_are_counted(data: FitData, tmp_path: Path) -> None:
    pairs = (Example("c c c", line) for line in TEXTS)
    store = TokenStore.write(tmp_path / "s", pairs, Numericalizer(data.tokenizers, max_length=9, long="error"))
    model = fitted(FitData(**{**vars(data), "train": store}), 3)
    assert model.ngrams.score([4, 5]) == fitted(data, 3).ngrams.score([4, 5])


def test_size_sets_the_order() -> None:
    assert [NgramSettings(size=size).order for size in ("tiny", "small", "base")] == [3, 5, 6]
    assert NgramSettings(size="tiny", order=2).order == 2
    assert architecture("ngram").fitted and architecture("ngram").task.name == "continue"


def test_thresholds_are_checked_before_counting() -> None:
    with pytest.raises(SeqloomError, match=r"model\.prune: unigrams are never pruned"):
        NgramSettings.checked({"prune": [1, 1]}, "model")
