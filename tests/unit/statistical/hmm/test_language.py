"""The language model: steps multiply to the likelihood, EM finds the states of a text."""

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


def fitted(lesson: FitData) -> tuple[HiddenLanguageModel, dict[str, float]]:
    settings = HiddenLanguageSettings(states=4, iterations=60, restarts=3, tolerance=1e-5)
    model = HiddenLanguageModel(settings, lesson.tokenizers.vocabularies)
    return model, model.fit(lesson)


def test_steps_multiply_to_the_likelihood(lesson_of: Make) -> None:
    lesson = lesson_of(TEXTS, [("the man runs", None)], byte_fallback=False)
    model, figures = fitted(lesson)
    ids = [*lesson.tokenizers.target.encode("the man runs"), EOS]
    memory, state = model.start(collate_ids([[], []], None, range(2)))
    total, last = 0.0, torch.tensor([BOS, BOS])
    for token in ids:
        log_probs, state, _ = model.step(memory, state, last)
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(2))
        assert log_probs[0, [PAD, BOS]].tolist() == [-math.inf] * 2
        total += float(log_probs[1, token])
        state, last = select_rows(state, torch.tensor([1, 1])), torch.tensor([token, token])
    hmm = Hmm.of(model.state_dict())
    assert total == pytest.approx(float(hmm.log_likelihood([torch.tensor(ids)])), abs=1e-5)
    assert figures["perplexity"] == pytest.approx(math.exp(-total / 4), rel=1e-5)


def test_states_of_a_simple_text_are_found(lesson_of: Make) -> None:
    lesson = lesson_of(TEXTS, byte_fallback=False)
    model, figures = fitted(lesson)
    assert figures["train_perplexity"] < 9 ** (1 / 4) * 1.1  # nine texts, four tokens each
    shown = [model.trellis(text, lesson.tokenizers) for text in ("the cat sits", "the man sleeps")]
    assert shown[0].path == shown[1].path and len(set(shown[0].path)) == 4
    assert shown[0].tokens[-1] == "</s>" and "cat" in shown[0].states[shown[0].path[1]]


def test_unseen_words_are_possible(lesson_of: Make) -> None:
    lesson = lesson_of(TEXTS, [("the zebra sits", None)], byte_fallback=False)
    assert fitted(lesson)[1]["perplexity"] < math.inf


def test_restoring(lesson_of: Make) -> None:
    lesson = lesson_of(TEXTS, byte_fallback=False)
    model, _ = fitted(lesson)
    again = HiddenLanguageModel(HiddenLanguageSettings(states=4), lesson.tokenizers.vocabularies)
    again.load_state_dict(model.state_dict())
    assert torch.equal(
        again.trellis("the cat", lesson.tokenizers).posteriors,
        model.trellis("the cat", lesson.tokenizers).posteriors,
    )


def test_pairs_are_refused(lesson_of: Make) -> None:
    with pytest.raises(SeqloomError, match="hmm-lm learns from plain text"):
        fitted(lesson_of([("a b", "x y")]))
