"""Classifier of feature sequences: one Gaussian-mixture hidden Markov model per class, and Bayes' rule."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.registry import register
from seqloom.settings import ModelSettings
from seqloom.statistical.base import FitData
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.packed import Observations
from seqloom.statistical.hmm.starts import Covariance, Topology, best_fit, gaussian_start
from seqloom.statistical.state_reader import StateReader, expect_size
from seqloom.types import EOS, Batch, Step, StepModel, Tree, Vocabularies

logger = logging.getLogger(__name__)


class ClassifierSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"states": 3, "mixtures": 1},
        "small": {"states": 8, "mixtures": 2},
        "base": {"states": 8, "mixtures": 4},
        "large": {"states": 12, "mixtures": 8},
    }

    name: str = "hmm-classifier"
    states: int = Field(8, ge=1, description="hidden states per class")
    mixtures: int = Field(2, ge=1, description="Gaussian components per state")
    covariance: Covariance = Field("diagonal", description="covariance of each Gaussian: diagonal or full")
    topology: Topology = Field(
        "left-right", description="left-right: a state stays or moves to the next one; ergodic: any to any"
    )
    iterations: int = Field(20, ge=1, description="maximum number of EM iterations")
    tolerance: float = Field(1e-3, ge=0, description="stop EM when an iteration gains less log P per frame")
    restarts: int = Field(1, ge=1, description="k-means initialisations to try; the best fit is kept")
    floor: float = Field(
        0.01, ge=0, description="minimum variance, as a fraction of the variance of all frames of the class"
    )


def class_model(sequences: Sequence[Observations], settings: ClassifierSettings, seed: int) -> Hmm:
    """Fit the model of one class to its sequences."""
    fit = best_fit(
        lambda generator: gaussian_start(
            sequences,
            settings.states,
            generator,
            mixtures=settings.mixtures,
            covariance=settings.covariance,
            topology=settings.topology,
            floor=settings.floor,
        ),
        sequences,
        restarts=settings.restarts,
        seed=seed,
        iterations=settings.iterations,
        tolerance=settings.tolerance,
    )
    return fit.model


@register(
    "hmm-classifier",
    summary="Hidden Markov classifier of feature sequences: one Gaussian-mixture model per class",
    paper="Rabiner 1989",
    settings=ClassifierSettings,
    fitted=True,
    defaults={"text.tokenizer": "frames", "text.target_tokenizer": "word", "text.vocab_size": 10_000},
)
class Classifier(StepModel):
    """P(class | x) ∝ P(class) P(x | class); the output is the class token followed by EOS."""

    def __init__(self, settings: ClassifierSettings, vocabularies: Vocabularies) -> None:
        if not vocabularies.features:
            raise SeqloomError(
                "The model hmm-classifier needs feature frames, but the source is text.",
                "give pairs of a .wav or .npy file and its class; to tag words use the model hmm",
            )
        self.settings, self.vocabularies = settings, vocabularies

    def fit(self, data: FitData) -> dict[str, float]:
        members: dict[int, list[Tensor]] = {}
        for frames, token in _examples(data.train):
            members.setdefault(token, []).append(frames)
        models = {}
        for number, (token, sequences) in enumerate(sorted(members.items()), 1):
            models[token] = class_model(sequences, self.settings, data.seed)
            (name,) = data.tokenizers.target.pieces([token])
            logger.info(f"class {name} ({number} of {len(members)}): {len(sequences)} sequences")
        self._store(models, {token: len(members[token]) for token in models})
        valid = list(_examples(data.valid))
        if not valid:
            return {}
        predicted = self.classes[self.log_posteriors([frames for frames, _ in valid]).argmax(1)]
        return {"accuracy": float((predicted == torch.tensor([token for _, token in valid])).double().mean())}

    def _store(self, models: Mapping[int, Hmm], counts: Mapping[int, int]) -> None:
        states = [model.state_dict() for model in models.values()]
        stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        prior = torch.tensor([counts[token] for token in models], dtype=torch.float64)
        self.load_state_dict({"classes": torch.tensor(list(models)), "prior": prior / prior.sum(), **stacked})

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        state = self._state = {name: value.cpu() for name, value in state.items()}
        reader = StateReader(state)
        self.classes = reader.integers("classes", "C", below=self.vocabularies.target)  # tokens
        reader.probabilities("prior", "C")
        parameters = {name: value for name, value in state.items() if name not in ("classes", "prior")}
        for name, value in parameters.items():
            expect_size(len(value), len(self.classes), f"number of classes in {name}")
        self._models = [
            Hmm.from_state({name: value[i] for name, value in parameters.items()})
            for i in range(len(self.classes))
        ]
        for model in self._models:
            expect_size(model.emission.width or 0, self.vocabularies.source, "number of features per frame")

    def log_posteriors(self, sequences: Sequence[Observations]) -> Tensor:
        """Return log P(class | x) of every sequence, (B, C)."""
        scores = torch.stack([model.log_likelihood(sequences) for model in self._models], dim=1)
        return (scores + self._state["prior"].log()).log_softmax(1)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return the log-probabilities of the class tokens, (B, V), and the number of tokens generated."""
        rows = zip(batch.source.cpu(), batch.source_lengths.tolist(), strict=True)
        posteriors = self.log_posteriors([frames[:length] for frames, length in rows])
        log_probs = torch.full((len(batch.source), self.vocabularies.target), -torch.inf)
        log_probs[:, self.classes] = posteriors.float()
        return log_probs.to(batch.source.device), torch.zeros_like(batch.source_lengths)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        log_probs = memory.repeat_interleave(len(last) // len(memory), dim=0)
        finished = state > 0
        log_probs[finished] = -torch.inf
        log_probs[finished, EOS] = 0.0
        return Step(log_probs, state + 1, None)


def _examples(store: TokenStore) -> Iterator[tuple[Tensor, int]]:
    """Yield the frames and the class token of every pair."""
    for i in range(len(store)):
        target = store.target(i).tolist()
        if len(target) != 1:
            raise SeqloomError(
                f"Pair {i + 1} has a target of {len(target)} tokens, but hmm-classifier needs exactly one.",
                "give one word per target and set text.target_tokenizer=word, or use another model",
            )
        yield torch.from_numpy(store.source(i).copy()), target[0]
