"""Teacher forcing: all positions of a target are trained at once, because their inputs are known."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor

from seqloom.inspect.picture import BLUE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    NOTES_ON_SEQ2SEQ,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.labs.framework.models import random_batch, untrained_model
from seqloom.models.base import AutoregressiveModel
from seqloom.settings import Settings
from seqloom.training.loss import cross_entropy
from seqloom.types import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VOCABULARY = 40
_TRANSFORMER, _LSTM = "Transformer", "LSTM"
_STYLES = {_TRANSFORMER: (BLUE, "o"), _LSTM: (VERMILLION, "s")}
_SAME = 1e-4  # relative difference of the loss and of the norm of the gradient
_FASTER, _LITTLE_FASTER = 10.0, 2.0  # at the largest length


class TeacherForcingSettings(Settings):
    lengths: tuple[int, ...] = Field((8, 16, 32, 64, 128), min_length=2, description="target lengths")
    width: int = Field(64, ge=8, multiple_of=4, description="width of the vectors")
    sentences: int = Field(8, ge=1, description="sentences in a batch")
    repeats: int = Field(2, ge=1, description="measurements, of which the fastest counts")
    seed: int = Field(1, description="seed of weights and sentences")


class TimedNumbers(Numbers):
    at_once: list[float]  # by length: processor time of loss and gradient, in seconds
    stepwise: list[float]
    difference: float  # largest relative difference of the loss or of the norm of the gradient

    @property
    def speedup(self) -> float:
        """Ratio at the largest length."""
        return self.stepwise[-1] / self.at_once[-1]


class TeacherForcingNumbers(Numbers):
    lengths: list[int]
    models: dict[str, TimedNumbers]


class TeacherForcing(Lab[TeacherForcingSettings, TeacherForcingNumbers]):
    name = "teacher-forcing"
    claim = "With teacher forcing, a Transformer trains all positions at once, much faster than step by step"
    note = Note(NOTES_ON_SEQ2SEQ, "Transformers")
    equation = (
        r"\mathcal{L} = -\sum_{t=1}^{n} \log P(y_t \mid y_1, \ldots, y_{t-1}, x):\qquad"
        r" \mathrm{in\ training,\ all}\ y_t\ \mathrm{are\ known}"
    )
    method = (
        "Compute the loss and its gradient for the same random batch in two ways: all target positions in one "
        "call, and one position after the other as in generation, with a cache of keys and values or with the "
        "recurrent state. Measure the processor time on one thread, for targets of 8 to 128 tokens."
    )
    criterion = (
        "holds: loss and gradient norm are equal (relative difference below 0.0001), and at the largest length "
        "the Transformer is more than 10 times as fast at once. Holds in part: more than twice as fast. "
        "Otherwise it does not hold here."
    )
    explanation = (
        "The inputs of all positions are the correct tokens, which are known before the update, and the causal "
        "mask hides the later ones. So n small steps become one step with large matrix products, and the "
        "result is the same. The number of operations is nearly the same, too: on one thread the gain is the "
        "cost of starting each small operation, and on parallel hardware it is larger. The LSTM gains as well, "
        "from one fused call and one output layer for all positions, but its states still depend on each "
        "other, so n steps remain inside the call."
    )
    variations = (
        Variation("sentences=64", "Larger batches: why does the advantage shrink?"),
        Variation("lengths=[64,128,256]", "Does the advantage keep growing with the length?"),
        Variation("width=256 repeats=1", "Wider vectors: what costs more time now?"),
    )
    exercise = Exercise(
        "A model is trained on 29,000 sentence pairs with 16 target tokens each, in batches of 64 pairs. How "
        "many calls of the decoder does one epoch need, at once and step by step?",
        "29,000 / 64 gives 454 batches. At once: 454 calls. Step by step: 454 · 16 = 7,264 calls.",
    )
    seconds = 7
    settings = TeacherForcingSettings
    numbers = TeacherForcingNumbers
    full: ClassVar[dict[str, object]] = {"lengths": (8, 32, 128, 512), "width": 128, "repeats": 10}

    def run(self, settings: TeacherForcingSettings) -> TeacherForcingNumbers:
        lengths = sorted(settings.lengths)
        transformer: dict[str, object] = {"layers": 2, "heads": 4, "ffn": 2 * settings.width}
        models = {
            _TRANSFORMER: _timed(settings, "transformer", lengths, transformer),
            _LSTM: _timed(settings, "lstm-last", lengths, {"layers": 1}),
        }
        return TeacherForcingNumbers(lengths=lengths, models=models)

    def judge(self, numbers: TeacherForcingNumbers) -> Judgement:
        speedup = numbers.models[_TRANSFORMER].speedup
        difference = max(one.difference for one in numbers.models.values())
        factors = ", ".join(f"{kind} {one.speedup:.1f} times" for kind, one in numbers.models.items())
        reason = (
            f"With {numbers.lengths[-1]} target tokens, an update is faster at once than step by step: "
            f"{factors}. The largest relative difference of the results is {difference:.1e}."
        )
        if difference > _SAME or speedup <= _LITTLE_FASTER:
            return Judgement(Verdict.NOT_HERE, reason)
        return Judgement(Verdict.HOLDS if speedup > _FASTER else Verdict.IN_PART, reason)

    def table(self, numbers: TeacherForcingNumbers) -> NumberTable:
        rows = [
            (kind, str(length), f"{1e3 * at_once:.1f}", f"{1e3 * stepwise:.1f}", f"{stepwise / at_once:.1f}")
            for kind, one in numbers.models.items()
            for length, at_once, stepwise in zip(numbers.lengths, one.at_once, one.stepwise, strict=True)
        ]
        return NumberTable(("model", "target tokens", "at once, ms", "step by step, ms", "ratio"), rows)

    def draw(self, numbers: TeacherForcingNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        for kind, one in numbers.models.items():
            color, marker = _STYLES[kind]
            for times, line, how in ((one.stepwise, "--", "step by step"), (one.at_once, "-", "at once")):
                points = [1e3 * time for time in times]
                panel.plot(numbers.lengths, points, line, marker=marker, color=color, label=f"{kind}, {how}")
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(numbers.lengths, [str(one) for one in numbers.lengths])
        panel.set_xlabel("target tokens")
        panel.set_ylabel("loss and gradient, ms")
        panel.grid()
        panel.legend()


def _timed(
    settings: TeacherForcingSettings, name: str, lengths: list[int], sizes: dict[str, object]
) -> TimedNumbers:
    """Measure a model with both ways of training."""
    model = cast(
        AutoregressiveModel,
        untrained_model(name, vocabulary=_VOCABULARY, seed=settings.seed, width=settings.width, **sizes),
    )
    at_once, stepwise, difference = [], [], 0.0
    for length in lengths:
        batch = random_batch(
            sentences=settings.sentences,
            source_length=16,
            target_length=length,
            vocabulary=_VOCABULARY,
            seed=settings.seed,
        )
        seconds, results = zip(
            *(_fastest(model, batch, hidden, settings.repeats) for hidden in (model.hidden, _stepwise(model))),
            strict=True,
        )
        at_once.append(seconds[0])
        stepwise.append(seconds[1])
        found, expected = results
        difference = max(difference, *(abs(a / b - 1) for a, b in zip(found, expected, strict=True)))
    return TimedNumbers(at_once=at_once, stepwise=stepwise, difference=difference)


def _stepwise(model: AutoregressiveModel) -> Callable[[Batch], Tensor]:
    """Return a function with the result of `hidden`, computed as in generation."""

    def hidden(batch: Batch) -> Tensor:
        assert batch.target_in is not None
        memory, state = model.start(batch)
        outputs = []
        for last in batch.target_in.unbind(dim=1):
            output, state, _ = model.step_hidden(memory, state, last)
            outputs.append(output)
        return torch.stack(outputs, dim=1)

    return hidden


def _fastest(
    model: AutoregressiveModel, batch: Batch, hidden: Callable[[Batch], Tensor], repeats: int
) -> tuple[float, tuple[float, float]]:
    """Return the processor time of loss and gradient, the loss, and the norm of the gradient."""
    assert batch.target_out is not None
    seconds = []
    for _ in range(repeats):
        model.zero_grad()
        start = time.process_time()
        # The cache of keys and values is extended in place.
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            loss = cross_entropy(hidden(batch), model.output, batch.target_out).total
            loss.backward()  # type: ignore[no-untyped-call]
        seconds.append(time.process_time() - start)
    gradients = [weight.grad.norm() for weight in model.parameters() if weight.grad is not None]
    return min(seconds), (float(loss.detach()), float(torch.stack(gradients).norm()))


LAB = TeacherForcing()
