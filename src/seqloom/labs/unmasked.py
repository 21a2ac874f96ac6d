"""Training without the causal mask gives a low loss and a useless model."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from seqloom.inspect.picture import BLUE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    SELF_ATTENTION,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
)
from seqloom.labs.framework.models import MaskedDecoder
from seqloom.labs.framework.trials import verdict_over_seeds
from seqloom.settings import Settings
from seqloom.training.config import TrainConfig
from seqloom.training.loss import cross_entropy
from seqloom.training.optimizer import Updater
from seqloom.types import UNK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARGIN = 0.2  # nats per token
_FIRST = UNK + 1  # id of the first symbol


class UnmaskedSettings(Settings):
    seeds: int = Field(3, ge=1, description="models with and without the mask")
    steps: int = Field(150, ge=1, description="updates of 32 sequences")
    symbols: int = Field(12, ge=2, description="symbols of the Markov chain")
    length: int = Field(16, ge=3, description="symbols per sequence")
    width: int = Field(32, ge=8, multiple_of=4, description="width of the vectors")
    layers: int = Field(2, ge=1, description="decoder layers")


class SeedNumbers(Numbers):
    masked: float  # loss in nats per symbol, trained and tested with the mask
    unmasked: float  # trained and tested without the mask
    generating: float  # trained without the mask, tested with it: generation has no future to read


class UnmaskedNumbers(Numbers):
    entropy: float  # of the next symbol: the lowest loss of a model that reads only the past
    seeds: list[SeedNumbers]


class Unmasked(Lab[UnmaskedSettings, UnmaskedNumbers]):
    name = "unmasked"
    claim = "A model that sees the future in training relies on it, and fails when it generates"
    note = Note(SELF_ATTENTION, "Problem 3: looking into the future")
    equation = (
        r"-\frac{1}{T} \sum_t \log P(y_t \mid y_{<t}) \geq H,\qquad H = -\sum_{a,b} p(a)\, p(b|a) \log p(b|a)"
    )
    method = (
        "Draw sequences from a Markov chain whose entropy H is known. Train two small Transformer decoders to "
        "predict the next symbol, with and without the causal mask. Test the second one also with the mask, "
        "as in generation, where the future does not exist yet."
    )
    criterion = (
        "holds: in all of at least 3 seeds, training without the mask gives a loss more than 0.2 nats below "
        "H, which no model of the past can reach, and with the mask this model is more than 0.2 nats worse "
        "than the one trained with it. Holds in part: the same for the means, or with fewer seeds. Otherwise "
        "it does not hold here."
    )
    explanation = (
        "The input at position t + 1 is the symbol that position t has to predict. Without the mask, the "
        "model learns to copy it, its loss falls below the entropy, and it learns little about the chain. In "
        "generation there is nothing to copy. A training loss below what is possible is a sign of a leak: "
        "here H shows it, for text only a comparison with other models does."
    )
    variations = (
        Variation("layers=1 seeds=1", "Can a single layer copy the next symbol?"),
        Variation("steps=600 seeds=1", "Does longer training without the mask help generation?"),
        Variation("length=4 seeds=1", "Short sequences: how much of the loss is left at the last position?"),
    )
    exercise = Exercise(
        "The last of 16 positions has no later position to copy from. Which loss can the unmasked model "
        "reach at best, if it predicts the last symbol as well as possible?",
        "Zero at 15 positions and H at the last one: H / 16 on average, about 0.1 nats for H = 1.5.",
    )
    seconds = 30
    settings = UnmaskedSettings
    numbers = UnmaskedNumbers
    trains = True
    full: ClassVar[dict[str, object]] = {"steps": 2000, "symbols": 50, "length": 64, "width": 128}

    def run(self, settings: UnmaskedSettings) -> UnmaskedNumbers:
        chain = _random_chain(settings.symbols)
        found = [_compare(chain, settings, seed) for seed in range(1, settings.seeds + 1)]
        return UnmaskedNumbers(entropy=_entropy(chain), seeds=found)

    def judge(self, numbers: UnmaskedNumbers) -> Judgement:
        below = [numbers.entropy - one.unmasked for one in numbers.seeds]
        worse = [one.generating - one.masked for one in numbers.seeds]
        masked, unmasked, generating = (
            mean(getattr(one, name) for one in numbers.seeds) for name in ("masked", "unmasked", "generating")
        )
        reason = (
            f"The entropy is {numbers.entropy:.2f} nats. Mean loss of {len(below)} seeds: {masked:.2f} with "
            f"the mask, {unmasked:.2f} without it, and {generating:.2f} if the mask is added after training."
        )
        verdict = verdict_over_seeds(
            in_every_seed=min(*below, *worse) > _MARGIN,
            on_average=min(mean(below), mean(worse)) > _MARGIN,
            seeds=len(below),
        )
        return Judgement(verdict, reason)

    def table(self, numbers: UnmaskedNumbers) -> NumberTable:
        rows = [
            (str(seed), f"{one.masked:.3f}", f"{one.unmasked:.3f}", f"{one.generating:.3f}")
            for seed, one in enumerate(numbers.seeds, 1)
        ]
        return NumberTable(("seed", "with mask", "without mask", "without, tested with mask"), rows)

    def draw(self, numbers: UnmaskedNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        names = ["trained with\nthe mask", "trained without\nthe mask", "trained without,\ntested with it"]
        kinds = ("masked", "unmasked", "generating")
        means = [mean(getattr(one, kind) for one in numbers.seeds) for kind in kinds]
        panel.bar(names, means, color=[BLUE, VERMILLION, VERMILLION], alpha=0.75)
        for one in numbers.seeds:
            panel.plot(names, [getattr(one, kind) for kind in kinds], "o", color="0.2")
        panel.axhline(numbers.entropy, color="0.3", ls="--", label="entropy H of the chain")
        panel.set_xlabel("model (points: seeds)")
        panel.set_ylabel("loss, nats per symbol")
        panel.margins(y=0.25)
        panel.legend()


def _random_chain(symbols: int) -> Tensor:
    """Return transition probabilities (V, V)."""
    random = torch.Generator().manual_seed(1)
    return (2 * torch.randn(symbols, symbols, generator=random)).softmax(dim=-1)


def _entropy(chain: Tensor) -> float:
    """Return the mean entropy of the next symbol under the stationary distribution."""
    stationary = torch.linalg.matrix_power(chain.double(), 200)[0]
    return float((stationary @ torch.special.entr(chain.double())).sum())


def _sequences(chain: Tensor, count: int, length: int, random: torch.Generator) -> Tensor:
    """Draw sequences (count, length + 1): each symbol but the last is an input, each but the first a target."""
    steps = [torch.randint(len(chain), (count,), generator=random)]
    for _ in range(length):
        steps.append(torch.multinomial(chain[steps[-1]], 1, generator=random)[:, 0])
    return _FIRST + torch.stack(steps, dim=1)


def _compare(chain: Tensor, settings: UnmaskedSettings, seed: int) -> SeedNumbers:
    everything = torch.ones(1, 1, settings.length, settings.length, dtype=torch.bool)
    with_mask, without = (_trained(chain, settings, seed, mask) for mask in (None, everything))
    test = _sequences(chain, 300, settings.length, torch.Generator().manual_seed(0))
    with torch.no_grad():
        return SeedNumbers(
            masked=float(_loss(with_mask, test, None)),
            unmasked=float(_loss(without, test, everything)),
            generating=float(_loss(without, test, None)),
        )


def _trained(chain: Tensor, settings: UnmaskedSettings, seed: int, mask: Tensor | None) -> MaskedDecoder:
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    model = MaskedDecoder(_FIRST + settings.symbols, width=settings.width, layers=settings.layers)
    updater = Updater(model, TrainConfig.model_validate({}))
    for _ in range(settings.steps):
        loss = _loss(model, _sequences(chain, 32, settings.length, random), mask)
        loss.backward()  # type: ignore[no-untyped-call]
        updater.update(1, 5e-3)
    return model


def _loss(model: MaskedDecoder, sequences: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mean loss in nats per symbol."""
    targets = sequences[:, 1:]
    return cross_entropy(model.hidden(sequences[:, :-1], mask), model.output, targets).total / targets.numel()


LAB = Unmasked()
