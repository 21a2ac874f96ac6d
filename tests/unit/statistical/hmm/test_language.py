"""Tests of the language model: steps multiply to the likelihood, EM finds word classes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from seqloom.data.batching import collate_ids
from seqloom.errors import SeqloomError
from seqloom.statistical.base import FitData
from seqloom.statistical.hmm.language import HiddenLanguageModel, HiddenLanguageSettings
from seqloom.statistical.hmm.model import Hmm
from seqloom.types import BOS, EOS, PAD, select_rows

Make = Callable[..., FitData]
TEXTS = [
    (f"the {noun} {verb}", None) for noun in ("cat", "dog", "man") for verb in ("sits", "runs", "sleeps")
] * 3


def fitted(data: FitData) -> tuple[HiddenLanguageModel, dict[str, float]]:
    settings = HiddenLanguageSettings(states=4, iterations=60, restarts=3, tolerance=1e-5)
    model = HiddenLanguageModel(settings, data.tokenizers.vocabularies)
    return model, model.fit(data)


def test_steps_multiply_to_the_likelihood(fit_data: Make) -> None:
    data = fit_data(TEXTS, [("the man runs", None)], byte_fallback=False)
    model, metrics = fitted(data)
    ids = [*data.tokenizers.target.encode("the man runs"), EOS]
    memory, state = model.start(collate_ids([[], []], None, range(2)))
    total, last = 0.0, torch.tensor([BOS, BOS])
    for token in ids:
        log_probs, state, _ = model.step(memory, state, last)
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(2))
        assert log_probs[0, [PAD, BOS]].tolist() == [-math.inf] * 2
        total += float(log_probs[1, token])
        state, last = select_rows(state, torch.tensor([1, 1])), torch.tensor([token, token])
    hmm = Hmm.from_state(model.state_dict())
    assert total == pytest.approx(float(hmm.log_likelihood([torch.tensor(ids)])), abs=1e-5)
    assert metrics["perplexity"] == pytest.approx(math.exp(-total / 4), rel=1e-5)


def test_em_finds_the_states_of_a_simple_text(fit_data: Make) -> None:
    data = fit_data(TEXTS, byte_fallback=False)
    model, metrics = fitted(data)
    assert metrics["train_perplexity"] < 9 ** (1 / 4) * 1.1  # nine texts, four tokens each
    shown = [model.trellis(text, data.tokenizers) for text in ("the cat sits", "the man sleeps")]
    assert shown[0].path == shown[1].path and len(set(shown[0].path)) == 4
    assert shown[0].tokens[-1] == "</s>" and "cat" in shown[0].states[shown[0].path[1]]


def test_unseen_words_have_a_probability(fit_data: Make) -> None:
    data = fit_data(TEXTS, [("the zebra sits", None)], byte_fallback=False)
    assert fitted(data)[1]["perplexity"] < math.inf


def test_state_dict_round_trip(fit_data: Make) -> None:
    data = fit_data(TEXTS, byte_fallback=False)
    model, _ = fitted(data)
    again = HiddenLanguageModel(HiddenLanguageSettings(states=4), data.tokenizers.vocabularies)
    again.load_state_dict(model.state_dict())
    assert torch.equal(
        again.trellis("the cat", data.tokenizers).posteriors,
        model.trellis("the cat", data.tokenizers).posteriors,
    )


def test_pairs_are_an_error(fit_data: Make) -> None:
    with pytest.raises(SeqloomError, match="hmm-lm is trained on plain text"):
        fitted(fit_data([("a b", "x y")]))
