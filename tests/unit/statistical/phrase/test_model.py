"""The phrase model: what it learns, what it keeps, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.encoding import Numericalizer
from seqloom.data.store import TokenStore
from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError
from seqloom.registry import architecture
from seqloom.statistical.phrase.features import FEATURES, noisy_channel
from seqloom.statistical.phrase.model import PhraseModel, PhraseSettings
from seqloom.types import Example

Fitted = tuple[PhraseModel, Any, dict[str, float]]


def _answers(model: PhraseModel, lesson: Any, lines: list[str]) -> list[str]:
    translator = model.translator(lesson.tokenizers, SearchConfig(), workers=1, length_ratio=None)
    return [hypotheses[0].text for hypotheses in translator.translate(lines)]


def test_it_learns_words_and_their_order(learned: Fitted, pairs: Callable[..., Any]) -> None:
    model, lesson, figures = learned
    unseen = pairs(3, 20)
    assert _answers(model, lesson, [source for source, _ in unseen]) == [target for _, target in unseen]
    assert figures["bleu"] == pytest.approx(100.0)
    assert figures["phrase_pairs"] == len(model.table)


def test_what_was_learned_comes_back_from_its_tensors(learned: Fitted, pairs: Callable[..., Any]) -> None:
    model, lesson, _ = learned
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert all(isinstance(tensor, torch.Tensor) for tensor in state.values())
    again = PhraseModel(model.settings, lesson.tokenizers.vocabularies)
    again.load_state_dict(state)
    lines = [source for source, _ in pairs(4, 5)]
    ours, theirs = (
        one.translator(lesson.tokenizers, SearchConfig(), workers=1, length_ratio=None).translate(
            lines, nbest=3
        )
        for one in (model, again)
    )
    assert ours == theirs


def test_a_fit_is_repeatable(fit: Callable[..., Fitted]) -> None:
    first, second = (fit()[0].state_dict() for _ in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_noisy_channel_has_two_probabilities_and_a_distance(fit: Callable[..., Fitted]) -> None:
    model, lesson, figures = fit(weights="noisy-channel")
    assert np.array_equal(model.weights, noisy_channel())
    used = {name for name, weight in zip(FEATURES, model.weights, strict=True) if weight}
    assert used == {"language", "inverse-phrase", "distance", "unknown"}
    assert "bleu" not in figures
    assert _answers(model, lesson, ["the red cat sees the dog ."]) == ["le chat rouge voit le chien ."]


def test_without_validation_pairs_the_weights_stay_and_it_is_said(
    fit: Callable[..., Fitted], messages: list[str]
) -> None:
    model, lesson, _ = fit(weights="start")
    alone = replace(lesson, valid_examples=lambda: iter(()))
    tuned = PhraseModel(PhraseSettings(size="tiny"), lesson.tokenizers.vocabularies)
    tuned.fit(alone)
    assert "no validation pairs: the weights are not tuned" in messages
    assert np.array_equal(tuned.weights, model.weights)


def test_text_without_sources_is_refused(learned: Fitted, tmp_path: Path) -> None:
    _, lesson, _ = learned
    text = [Example("le chat"), Example("le chien rouge")]
    store = TokenStore.write(
        tmp_path / "text", text, Numericalizer(lesson.tokenizers, max_length=9, long="drop")
    )
    model = PhraseModel(PhraseSettings(size="tiny"), lesson.tokenizers.vocabularies)
    with pytest.raises(SeqloomError, match="no training line has both a source and a target"):
        model.fit(replace(lesson, train=store))


def test_pairs_without_phrases_are_refused(learned: Fitted, tmp_path: Path) -> None:
    _, lesson, _ = learned
    strange = [Example("xx", "yy"), Example("zz", "ww")]
    store = TokenStore.write(
        tmp_path / "odd", strange, Numericalizer(lesson.tokenizers, max_length=9, long="drop")
    )
    model = PhraseModel(PhraseSettings(size="tiny"), lesson.tokenizers.vocabularies)
    with pytest.raises(SeqloomError, match="No phrase was found in 2 training pairs"):
        model.fit(replace(lesson, train=store))


def test_it_is_registered_with_words_as_tokens() -> None:
    entry = architecture("phrase")
    assert entry.fitted and entry.task == "translate"
    assert entry.defaults["text.tokenizer"] == "word"


def test_a_beam_is_the_size_of_a_stack() -> None:
    settings = PhraseSettings(stack=50, pops=80)
    assert (settings.limits().stack, settings.limits().pops) == (50, 80)
    assert (settings.limits(7).stack, settings.limits(7).pops) == (7, 80)
    assert (settings.limits(300).stack, settings.limits(300).pops) == (300, 300)
