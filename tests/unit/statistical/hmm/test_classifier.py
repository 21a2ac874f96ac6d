"""Tests of the classifier: Bayes' rule over one model per class, then EOS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.classifier import Classifier, ClassifierSettings, class_model
from seqloom.types import BOS, EOS, Batch, Vocabularies

RISES, FALLS = 5, 7  # the tokens of two classes
SETTINGS = ClassifierSettings(states=3, mixtures=1)
VOCABULARIES = Vocabularies(2, 9, False, features=True)


def clip(token: int, seed: int) -> NDArray[np.float32]:
    """Return frames that rise or fall over time."""
    random = np.random.default_rng(seed)
    length = int(random.integers(6, 15))
    way = np.linspace(-2, 2, length) * (1 if token == RISES else -1)
    return (way[:, None] + 0.5 * random.normal(size=(length, 2))).astype(np.float32)


def make_data(frame_store: Any, rows: list[tuple[NDArray[np.float32], list[int]]]) -> Any:
    target = SimpleNamespace(pieces=lambda ids: [f"class{id}" for id in ids])
    valid = frame_store([(clip(token, 100 + token), [token]) for token in (RISES, FALLS)])
    return SimpleNamespace(
        train=frame_store(rows),
        valid=valid,
        seed=1,
        tokenizers=SimpleNamespace(target=target),
    )


def rows(more: int = 0) -> list[tuple[NDArray[np.float32], list[int]]]:
    return [(clip(RISES, i), [RISES]) for i in range(10 + more)] + [
        (clip(FALLS, i), [FALLS]) for i in range(10)
    ]


def fitted(frame_store: Any) -> Classifier:
    model = Classifier(SETTINGS, VOCABULARIES)
    data = make_data(frame_store, rows(more=20))
    assert model.fit(data) == {"accuracy": 1.0}
    return model


def test_posteriors_are_bayes_rule(frame_store: Any, messages: list[str]) -> None:
    model = fitted(frame_store)
    assert messages == ["class class5 (1 of 2): 30 sequences", "class class7 (2 of 2): 10 sequences"]
    clips = [clip(RISES, 50), clip(FALLS, 51)]
    members = {token: [frames for frames, (own,) in rows(more=20) if own == token] for token in (RISES, FALLS)}
    scores = [class_model(own, SETTINGS, 1).log_likelihood(clips) for own in members.values()]
    expected = torch.stack(scores, 1) + torch.tensor([0.75, 0.25]).log()
    torch.testing.assert_close(model.log_posteriors(clips), expected.log_softmax(1), atol=1e-6, rtol=1e-6)
    assert model.log_posteriors(clips).argmax(1).tolist() == [0, 1]


def test_first_step_is_the_class_and_second_is_eos(frame_store: Any) -> None:
    model = fitted(frame_store)
    clips = [clip(RISES, 50), clip(FALLS, 51)]
    padded = torch.zeros(2, 20, 2)
    for row, frames in zip(padded, clips, strict=True):
        row[: len(frames)] = torch.from_numpy(frames)
    batch = Batch(padded, torch.tensor([len(frames) for frames in clips]), torch.arange(2))
    memory, state = model.start(batch)
    last = torch.full((4,), BOS)
    first = model.step(memory, state.repeat_interleave(2), last)
    assert first.log_probs.argmax(1).tolist() == [RISES, RISES, FALLS, FALLS]
    torch.testing.assert_close(
        first.log_probs[::2, [RISES, FALLS]].double(), model.log_posteriors(clips), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(first.log_probs.exp().sum(1), torch.ones(4))
    second = model.step(memory, first.state, first.log_probs.argmax(1))
    assert second.log_probs.argmax(1).tolist() == [EOS] * 4 and (second.log_probs[:, EOS] == 0).all()


def test_state_dict_round_trip(frame_store: Any) -> None:
    model, again = fitted(frame_store), Classifier(SETTINGS, VOCABULARIES)
    again.load_state_dict(model.state_dict())
    clips = [clip(RISES, 60)]
    torch.testing.assert_close(again.log_posteriors(clips), model.log_posteriors(clips))


def test_target_of_several_tokens_is_an_error(frame_store: Any) -> None:
    data = make_data(frame_store, [*rows(), (clip(RISES, 3), [RISES, FALLS])])
    with pytest.raises(SeqloomError, match="Pair 21 has a target of 2 tokens"):
        Classifier(SETTINGS, VOCABULARIES).fit(data)


def test_text_source_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="hmm-classifier needs feature frames"):
        Classifier(SETTINGS, Vocabularies(20, 9, False))
