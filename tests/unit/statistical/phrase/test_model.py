"""Tests of the phrase model: fitting, saving and errors."""

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


def _translations(model: PhraseModel, data: Any, lines: list[str]) -> list[str]:
    translator = model.translator(data.tokenizers, SearchConfig(), workers=1, length_ratio=None)
    return [hypotheses[0].text for hypotheses in translator.translate(lines)]


def test_words_and_their_order_are_learned(learned: Fitted, pairs: Callable[..., Any]) -> None:
    model, data, metrics = learned
    unseen = pairs(3, 20)
    assert _translations(model, data, [source for source, _ in unseen]) == [target for _, target in unseen]
    assert metrics["bleu"] == pytest.approx(100.0)
    assert metrics["phrase_pairs"] == len(model.table)


def test_state_dict_round_trip(learned: Fitted, pairs: Callable[..., Any]) -> None:
    model, data, _ = learned
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert all(isinstance(tensor, torch.Tensor) for tensor in state.values())
    again = PhraseModel(model.settings, data.tokenizers.vocabularies)
    again.load_state_dict(state)
    lines = [source for source, _ in pairs(4, 5)]
    ours, theirs = (
        one.translator(data.tokenizers, SearchConfig(), workers=1, length_ratio=None).translate(lines, nbest=3)
        for one in (model, again)
    )
    assert ours == theirs


def test_fit_is_deterministic(fit: Callable[..., Fitted]) -> None:
    first, second = (fit()[0].state_dict() for _ in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_noisy_channel_weights(fit: Callable[..., Fitted]) -> None:
    model, data, metrics = fit(weights="noisy-channel")
    assert np.array_equal(model.weights, noisy_channel())
    used = {name for name, weight in zip(FEATURES, model.weights, strict=True) if weight}
    assert used == {"language", "inverse-phrase", "distance", "unknown"}
    assert "bleu" not in metrics
    assert _translations(model, data, ["the red cat sees the dog ."]) == ["le chat rouge voit le chien ."]


def test_weights_are_not_tuned_without_validation_pairs(
    fit: Callable[..., Fitted], messages: list[str]
) -> None:
    model, data, _ = fit(weights="start")
    alone = replace(data, valid_examples=lambda: iter(()))
    tuned = PhraseModel(PhraseSettings(size="tiny"), data.tokenizers.vocabularies)
    tuned.fit(alone)
    assert "no validation pairs: weights are not tuned" in messages
    assert np.array_equal(tuned.weights, model.weights)


def test_text_without_sources_is_an_error(learned: Fitted, tmp_path: Path) -> None:
    _, data, _ = learned
    text = [Example("le chat"), Example("le chien rouge")]
    store = TokenStore.write(tmp_path / "text", text, Numericalizer(data.tokenizers, max_length=9, long="drop"))
    model = PhraseModel(PhraseSettings(size="tiny"), data.tokenizers.vocabularies)
    with pytest.raises(SeqloomError, match="no training line has both a source and a target"):
        model.fit(replace(data, train=store))


def test_pairs_without_phrases_are_an_error(learned: Fitted, tmp_path: Path) -> None:
    _, data, _ = learned
    strange = [Example("xx", "yy"), Example("zz", "ww")]
    store = TokenStore.write(
        tmp_path / "odd", strange, Numericalizer(data.tokenizers, max_length=9, long="drop")
    )
    model = PhraseModel(PhraseSettings(size="tiny"), data.tokenizers.vocabularies)
    with pytest.raises(SeqloomError, match="No phrases found in 2 training pairs"):
        model.fit(replace(data, train=store))


def test_word_tokenizer_is_the_default() -> None:
    entry = architecture("phrase")
    assert entry.fitted and entry.task.name == "translate"
    assert entry.defaults["text.tokenizer"] == "word"


def test_beam_sets_the_stack_size() -> None:
    settings = PhraseSettings(stack=50, pops=80)
    assert (settings.limits().stack, settings.limits().pops) == (50, 80)
    assert (settings.limits(7).stack, settings.limits(7).pops) == (7, 80)
    assert (settings.limits(300).stack, settings.limits(300).pops) == (300, 300)
