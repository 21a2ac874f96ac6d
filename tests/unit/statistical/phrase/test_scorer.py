"""Tests of scoring given targets by forced decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from seqloom.decode.config import SearchConfig
from seqloom.statistical.phrase import forced as module
from seqloom.statistical.phrase.model import PhraseModel
from seqloom.statistical.phrase.scorer import PhraseScorer

Fitted = tuple[PhraseModel, Any, dict[str, float]]
ODD = ["the red Zebra-42 sees the cat .", "Õ ⁇ 7", "a Zebra Õ sees ."]


@pytest.fixture
def scorer(learned: Fitted) -> PhraseScorer:
    model, data, _ = learned
    return model.scorer(data.tokenizers, workers=1)


def test_forced_scores_are_at_least_the_decoder_scores(
    learned: Fitted, scorer: PhraseScorer, pairs: Callable[..., Any]
) -> None:
    model, data, _ = learned
    lines = [source for source, _ in pairs(7, 12)] + ODD
    outputs = model.translator(data.tokenizers, SearchConfig(), workers=1, length_ratio=None).translate(lines)
    scores = scorer.score([(line, best.text) for line, (best,) in zip(lines, outputs, strict=True)])
    for (best,), found in zip(outputs, scores, strict=True):
        assert found.score is not None
        assert found.score >= best.score - 1e-6
    same = [found.score == pytest.approx(best.score) for (best,), found in zip(outputs, scores, strict=True)]
    assert sum(same) >= len(same) - 1  # free search finds the best derivation of such sentences


def test_phrases_add_up_to_the_target(scorer: PhraseScorer, learned: Fitted) -> None:
    source = "the red cat sees the dog ."
    (found,) = scorer.score([(source, "le chat rouge voit le chien .")])
    assert found.score is not None and found.words == 7
    assert " ".join(phrase.target for phrase in found.phrases) == "le chat rouge voit le chien ."
    spans = sorted((phrase.start, phrase.stop) for phrase in found.phrases)
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    assert all(
        phrase.source == " ".join(source.split()[phrase.start : phrase.stop]) for phrase in found.phrases
    )
    assert sum(phrase.score for phrase in found.phrases) == pytest.approx(found.score)
    weighted = sum(w * v for w, v in zip(learned[0].weights, found.features.values(), strict=True))
    assert weighted == pytest.approx(found.score)
    assert found.mean == found.score / 7


def test_impossible_target_has_no_score(scorer: PhraseScorer) -> None:
    source = "the cat sees the dog ."
    targets = ["le chat voit le chien", "le chat voit le chien . .", "xyz", "", "le chat voit le chien ."]
    found = scorer.score([(source, target) for target in targets])
    assert [one.score is not None for one in found] == [False, False, False, False, True]
    assert found[0].mean is None and found[0].phrases == () and found[0].features == {}
    assert scorer.score([("", "le chat")])[0].score is None


def test_workers_and_progress_do_not_affect_scores(
    learned: Fitted, scorer: PhraseScorer, pairs: Callable[..., Any]
) -> None:
    model, data, _ = learned
    heard: list[int] = []
    some = pairs(3, 9)
    assert model.scorer(data.tokenizers, workers=2).score(some) == scorer.score(some, on_progress=heard.append)
    assert sum(heard) == 9


def test_repetitive_pair_terminates(scorer: PhraseScorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STACK_SIZE", 5)
    (found,) = scorer.score([("the cat " * 20, "le chat " * 20)])
    assert found.score is not None
    assert len(" ".join(phrase.target for phrase in found.phrases).split()) == 40
