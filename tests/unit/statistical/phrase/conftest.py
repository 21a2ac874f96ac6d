"""A phrase model fitted on two hundred pairs of an artificial language with adjectives after nouns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from seqloom.data.encoding import Numericalizer
from seqloom.data.store import TokenStore
from seqloom.statistical.base import FitData
from seqloom.statistical.phrase.model import PhraseModel, PhraseSettings
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example

NOUNS = {"cat": "chat", "dog": "chien", "house": "maison", "tree": "arbre", "car": "auto"}
ADJECTIVES = {"red": "rouge", "big": "grand", "old": "vieux", "green": "vert"}
VERBS = {"sees": "voit", "likes": "aime", "hides": "cache"}

Fit = Callable[..., tuple[PhraseModel, FitData, dict[str, float]]]


def _phrase(random: Random) -> tuple[str, str]:
    noun = random.choice(list(NOUNS))
    if random.random() < 0.3:
        return f"the {noun}", f"le {NOUNS[noun]}"
    adjective = random.choice(list(ADJECTIVES))
    return f"the {adjective} {noun}", f"le {NOUNS[noun]} {ADJECTIVES[adjective]}"


def _pairs(seed: int, count: int) -> list[tuple[str, str]]:
    random = Random(seed)
    pairs = []
    for _ in range(count):
        (left, right), (object, its) = _phrase(random), _phrase(random)
        verb = random.choice(list(VERBS))
        pairs.append((f"{left} {verb} {object} .", f"{right} {VERBS[verb]} {its} ."))
    return pairs


@pytest.fixture(scope="session")
def pairs() -> Callable[[int, int], list[tuple[str, str]]]:
    """Return a function that draws pairs of the artificial language, given a seed and a count."""
    return _pairs


@pytest.fixture(scope="session")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """Return a function that fits a model and returns it with its data and metrics."""

    def fitted(valid: int = 6, **settings: Any) -> tuple[PhraseModel, FitData, dict[str, float]]:
        folder = tmp_path_factory.mktemp("phrase")
        train, checked = _pairs(1, 200), _pairs(2, valid)
        text = TextConfig(tokenizer="word", vocab_size=1_000_000, byte_fallback=False, joint=False)
        tokenizers = TokenizerPair.train(text, lambda: train)
        data = FitData(
            tokenizers=tokenizers,
            train=_store(folder / "train", train, tokenizers),
            valid=_store(folder / "valid", checked, tokenizers),
            valid_examples=lambda: (Example(source, target) for source, target in checked),
        )
        chosen = PhraseSettings(size="tiny", tune_rounds=2, tune_nbest=20, **settings)
        model = PhraseModel(chosen, tokenizers.vocabularies)
        return model, data, model.fit(data)

    return fitted


def _store(folder: Path, pairs: list[tuple[str, str]], tokenizers: TokenizerPair) -> TokenStore:
    examples: Iterator[Example] = (Example(source, target) for source, target in pairs)
    return TokenStore.write(folder, examples, Numericalizer(tokenizers, max_length=100, long="drop"))


@pytest.fixture(scope="session")
def learned(fit: Fit) -> tuple[PhraseModel, FitData, dict[str, float]]:
    """A model with tuned weights, its data and its metrics."""
    return fit()
