"""One hidden Markov model with Gaussian mixtures per class of sequences, and Bayes' rule."""

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
from seqloom.statistical.state_reader import StateReader, expect
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
    states: int = Field(8, ge=1, description="hidden states of every class")
    mixtures: int = Field(2, ge=1, description="Gaussians of every state")
    covariance: Covariance = Field("diagonal", description="of a Gaussian: diagonal or full")
    topology: Topology = Field(
        "left-right", description="left-right: a state stays or goes to the next; ergodic"
    )
    iterations: int = Field(20, ge=1, description="of EM at the most")
    tolerance: float = Field(1e-3, ge=0, description="an iteration that gains less log P per frame is the last")
    restarts: int = Field(1, ge=1, description="starts by k-means, of which the best fit stays")
    floor: float = Field(
        0.01, ge=0, description="least variance, as a share of that of all frames of the class"
    )


def class_model(sequences: Sequence[Observations], settings: ClassifierSettings, seed: int) -> Hmm:
    """The model of the sequences of one class."""
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
    summary="A class for a sequence of feature frames: one Gaussian-mixture hidden Markov model each",
    paper="Rabiner 1989",
    settings=ClassifierSettings,
    fitted=True,
    defaults={"text.tokenizer": "frames", "text.target_tokenizer": "word", "text.vocab_size": 10_000},
)
class Classifier(StepModel):
    """P(class | x) ∝ P(class) P(x | class); the answer is the token of the class, then the end."""

    def __init__(self, settings: ClassifierSettings, vocabularies: Vocabularies) -> None:
        if not vocabularies.features:
            raise SeqloomError(
                "The model hmm-classifier reads feature frames, but the source is text.",
                "give pairs of a .wav or .npy file and its class; for words and tags use the model hmm",
            )
        self.settings, self.vocabularies = settings, vocabularies

    def fit(self, lesson: FitData) -> dict[str, float]:
        members: dict[int, list[Tensor]] = {}
        for frames, token in _examples(lesson.train):
            members.setdefault(token, []).append(frames)
        models = {}
        for number, (token, sequences) in enumerate(sorted(members.items()), 1):
            models[token] = class_model(sequences, self.settings, lesson.seed)
            (name,) = lesson.tokenizers.target.pieces([token])
            logger.info(f"class {name} ({number} of {len(members)}): {len(sequences)} sequences")
        self._keep(models, {token: len(members[token]) for token in models})
        valid = list(_examples(lesson.valid))
        if not valid:
            return {}
        found = self.classes[self.log_posteriors([frames for frames, _ in valid]).argmax(1)]
        return {"accuracy": float((found == torch.tensor([token for _, token in valid])).double().mean())}

    def _keep(self, models: Mapping[int, Hmm], counts: Mapping[int, int]) -> None:
        states = [model.state_dict() for model in models.values()]
        stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        prior = torch.tensor([counts[token] for token in models], dtype=torch.float64)
        self.load_state_dict({"classes": torch.tensor(list(models)), "prior": prior / prior.sum(), **stacked})

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        state = self._state = {name: value.cpu() for name, value in state.items()}
        given = StateReader(state)
        self.classes = given.integers("classes", "C", below=self.vocabularies.target)  # tokens
        given.probabilities("prior", "C")
        parameters = {name: value for name, value in state.items() if name not in ("classes", "prior")}
        for name, value in parameters.items():
            expect(len(value), len(self.classes), f"the number of classes in {name}")
        self._models = [
            Hmm.of({name: value[i] for name, value in parameters.items()}) for i in range(len(self.classes))
        ]
        for model in self._models:
            expect(model.emission.width or 0, self.vocabularies.source, "the width of a frame")

    def log_posteriors(self, sequences: Sequence[Observations]) -> Tensor:
        """(B, C): log P(class | x) of every sequence."""
        scores = torch.stack([model.log_likelihood(sequences) for model in self._models], dim=1)
        return (scores + self._state["prior"].log()).log_softmax(1)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """What is known of the answers, (B, V)."""
        rows = zip(batch.source.cpu(), batch.source_lengths.tolist(), strict=True)
        posteriors = self.log_posteriors([frames[:length] for frames, length in rows])
        log_probs = torch.full((len(batch.source), self.vocabularies.target), -torch.inf)
        log_probs[:, self.classes] = posteriors.float()
        return log_probs.to(batch.source.device), torch.zeros_like(batch.source_lengths)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        log_probs = memory.repeat_interleave(len(last) // len(memory), dim=0)
        over = state > 0
        log_probs[over] = -torch.inf
        log_probs[over, EOS] = 0.0
        return Step(log_probs, state + 1, None)


def _examples(store: TokenStore) -> Iterator[tuple[Tensor, int]]:
    """The frames of every pair and its class."""
    for i in range(len(store)):
        target = store.target(i).tolist()
        if len(target) != 1:
            raise SeqloomError(
                f"Pair {i + 1} has a target of {len(target)} tokens, but hmm-classifier learns classes of one.",
                "give one word as target and text.target_tokenizer=word; for longer targets use another model",
            )
        yield torch.from_numpy(store.source(i).copy()), target[0]
