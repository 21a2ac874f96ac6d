"""Tests of the tagger: exact tag posteriors, beam search against Viterbi, unseen words, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch

from seqloom.data.batching import collate_ids
from seqloom.decode.config import SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.statistical.base import FitData
from seqloom.statistical.hmm.tagger import Tagger, TaggerSettings
from seqloom.types import BOS, EOS, Batch, Vocabularies

PAIRS = [
    ("the old man can fish", "D A N X V"),
    ("the can is old", "D N X A"),
    ("fish can swim", "N X V"),
    ("the man is walking", "D N X V"),
    ("Anna can walk", "P X V"),
]
TEXT = "the Fish can zwing"  # with unseen words

Make = Callable[..., FitData]


def fitted(data: FitData, **options: Any) -> Tagger:
    tagger = Tagger(TaggerSettings(**options), data.tokenizers.vocabularies)
    tagger.fit(data)
    return tagger


def batch_of(data: FitData, *texts: str) -> Batch:
    return collate_ids([data.tokenizers.source.encode(text) for text in texts], None, range(len(texts)))


def path_log_prob(tagger: Tagger, batch: Batch, tags: tuple[int, ...]) -> float:
    """Return log P(tags, EOS | first text), step by step."""
    memory, state = tagger.start(batch)
    last, total = torch.full((len(batch.source),), BOS), 0.0
    for tag in (*tags, EOS):
        log_probs, state, _ = tagger.step(memory, state, last)
        total += float(log_probs[0, tag])
        last = torch.full_like(last, tag)
    return total


def joint(tagger: Tagger, text: str, data: FitData, path: tuple[int, ...]) -> float:
    """Return P(path, text) up to a factor that depends on the text alone, from the state dict."""
    state = tagger.state_dict()
    words = data.tokenizers.source.encode(text)
    assert len(words) == len(path)  # no word is spelled in bytes
    emission = state["word_probabilities"].double() / state["tag_probabilities"]
    value = float(state["start"][path[0]] * emission[words[0], path[0]])
    for before, after, word in zip(path, path[1:], words[1:], strict=False):
        value *= float(state["transition"][before, after] * emission[word, after])
    return value * float(state["end"][path[-1]])


def test_steps_give_the_exact_posterior_of_every_path(fit_data: Make) -> None:
    data = fit_data(PAIRS)
    tagger, text = fitted(data), "the old fish can"
    tags = tagger.state_dict()["tags"].tolist()
    paths = {path: joint(tagger, text, data, path) for path in product(range(len(tags)), repeat=4)}
    total, batch = sum(paths.values()), batch_of(data, text, "fish")
    some = sorted(paths, key=lambda path: -paths[path])[:10] + list(paths)[::97]
    for path in some:
        found = path_log_prob(tagger, batch, tuple(tags[state] for state in path))
        assert found == pytest.approx(math.log(paths[path] / total), abs=1e-4)


def test_wide_beam_search_equals_viterbi(fit_data: Make) -> None:
    data = fit_data(PAIRS)
    tagger = fitted(data)
    translator = TorchTranslator(tagger, data.tokenizers, SearchConfig())
    texts = [TEXT, "Anna is old", "swim", "the the old can fish is walking"]
    for text, (best, *_) in zip(texts, translator.translate(texts, beam=40), strict=True):
        shown = tagger.trellis(text, data.tokenizers)
        assert best.text.split() == [shown.states[state] for state in shown.path]
        assert best.log_prob == pytest.approx(shown.log_prob, abs=1e-4)
        tokens = tuple(tagger.state_dict()["tags"][list(shown.path)].tolist())
        assert path_log_prob(tagger, batch_of(data, text), tokens) == pytest.approx(shown.log_prob, abs=1e-4)


def test_steps_are_distributions_and_end_after_the_last_word(fit_data: Make) -> None:
    data = fit_data(PAIRS)
    tagger = fitted(data)
    batch = batch_of(data, TEXT, "fish")
    memory, state = tagger.start(batch)
    last = torch.full((4,), BOS)  # two hypotheses each
    state = state.repeat_interleave(2)
    for t in range(5):
        log_probs, state, attention = tagger.step(memory, state, last)
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(4))
        assert (log_probs[:, EOS] == 0).tolist() == [t == 4] * 2 + [t >= 1] * 2
        assert attention is not None and attention.sum(-1).flatten().tolist() == [1.0] * 4
        last = log_probs.argmax(1)
    assert attention[0, 0, 0].argmax() == batch.source_lengths[0] - 1


def test_unseen_words_are_tagged_by_their_ending(fit_data: Make) -> None:
    pairs = [(f"{stem}ing", "V") for stem in ("walk", "talk", "look")] + [
        (f"{stem}ness", "N") for stem in ("sad", "fit")
    ]
    data = fit_data(pairs)
    tagger = fitted(data)
    names = {text: tagger.trellis(text, data.tokenizers) for text in ("singing", "madness")}
    assert [one.states[one.path[0]] for one in names.values()] == ["V", "N"]


def test_validation_metrics_and_state_dict(fit_data: Make) -> None:
    data = fit_data(PAIRS, [("the man can walk", "D N X V"), ("the dog can swim", "D N X N")])
    tagger = Tagger(TaggerSettings(), data.tokenizers.vocabularies)
    metrics = tagger.fit(data)
    assert metrics["accuracy"] == pytest.approx(7 / 8)
    assert metrics["accuracy_unseen"] == 1.0  # dog
    again = Tagger(TaggerSettings(), data.tokenizers.vocabularies)
    again.load_state_dict(tagger.state_dict())
    one, two = (model.trellis(TEXT, data.tokenizers) for model in (tagger, again))
    assert one.path == two.path and torch.equal(one.posteriors, two.posteriors)


def test_pair_with_too_few_tags_is_named(fit_data: Make) -> None:
    with pytest.raises(SeqloomError, match=r"Pair 2 of the training data \('a b c'\) has 3 words and 2 tags"):
        fitted(fit_data([("a b", "X Y"), ("a b c", "X Y")]))


def test_feature_frames_are_an_error() -> None:
    with pytest.raises(SeqloomError, match="the source is feature frames"):
        Tagger(TaggerSettings(), Vocabularies(13, 9, False, features=True))


def test_too_many_tags_are_an_error(fit_data: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.statistical.hmm.tagger._MAX_PROBABILITIES", 100)
    with pytest.raises(SeqloomError, match="The targets have 6 different tokens"):
        fitted(fit_data(PAIRS))


def test_text_without_words_is_an_error(fit_data: Make) -> None:
    data = fit_data(PAIRS)
    with pytest.raises(SeqloomError, match="The text has no words"):
        fitted(data).trellis("", data.tokenizers)
