"""Agreement with a distant subject, by n-grams, a simple RNN and an LSTM.

Pilot (seeds 101 and 102, before the criterion was fixed): with 10 words from subject to verb, the LSTM
was right in all sentences, the 5-gram model in 48 %, and the simple RNN in 58 and 53 %. With 1,500
sentences and 250 updates of a narrower LSTM, it had not learned the rule either (46 and 47 %). After the
result with the seeds 1 to 3, a run with 1,400 updates (seeds 103 to 105) was always right with the LSTM,
and with the simple RNN in two of three seeds. The settings and the criterion were not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from statistics import mean
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field

from seqloom.data.tasks.contrastive import generate_contrasts
from seqloom.evaluate.contrast import Contrast
from seqloom.inspect.picture import BLUE, ORANGE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    LECTURE_6,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
)
from seqloom.labs.framework.models import untrained_model
from seqloom.labs.framework.training import FIRST, Pair, pairs_batch, train
from seqloom.labs.framework.trials import by_kind, draw_curves, percent, verdict_over_seeds
from seqloom.models.base import SequenceModel
from seqloom.settings import Settings
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.types import EOS, PAD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NGRAM, _RNN, _LSTM = "n-grams", "simple RNN", "LSTM"
_COLORS = {_NGRAM: ORANGE, _RNN: VERMILLION, _LSTM: BLUE}
_ARCHITECTURES = {_RNN: "rnn-lm", _LSTM: "lstm-lm"}
_LEARNED, _GUESSED = 0.95, 0.65  # accuracy at the largest distance
_TEST = 500  # sentences


class AgreementSettings(Settings):
    seeds: int = Field(3, ge=1, description="sets of sentences, and models per kind")
    sentences: int = Field(3000, ge=100, description="training sentences")
    steps: int = Field(700, ge=1, description="updates of 32 sentences")
    width: int = Field(64, ge=2, description="width of the states")
    order: int = Field(5, ge=2, description="n of the n-grams")


class AgreementNumbers(Numbers):
    distances: list[int]  # words from the subject to the verb
    accuracy: dict[str, list[list[float]]]  # by kind, seed and distance: the correct verb is more probable


class Sentences(NamedTuple):
    """Generated sentences for training and pairs of a correct and a wrong sentence for the test."""

    ids: dict[str, int]
    train: list[list[int]]
    test: list[Contrast]

    def encode(self, text: str) -> list[int]:
        return [self.ids[word] for word in text.split()]


class AgreementByDistance(Lab[AgreementSettings, AgreementNumbers]):
    name = "agreement"
    claim = (
        "Gradient signal from far away is lost, so a simple RNN learns near effects only; an LSTM learns both"
    )
    note = Note(LECTURE_6, "Vanishing gradients")
    equation = (
        r"P(\mathrm{the\ writer\ of\ the\ books\ is\ old}) >"
        r" P(\mathrm{the\ writer\ of\ the\ books\ are\ old})"
    )
    method = (
        "Train language models on 3,000 generated sentences such as “the writer of the books near the house is "
        "old .” (as from seqloom data make agreement): 5-grams, a simple RNN and an LSTM. On 500 new "
        "sentences, count how often the correct verb form makes the sentence more probable than the other one, "
        "by the number of words from the subject to the verb. The nouns between them have random numbers."
    )
    criterion = (
        "holds: in all of at least 3 seeds, at the largest distance the LSTM is right in at least 95 % of the "
        "sentences, and n-grams and simple RNN in at most 65 %. Holds in part: the same for the means, or with "
        "fewer seeds. Otherwise it does not hold here."
    )
    explanation = (
        "A 5-gram sees four words before the verb, so it is perfect if the subject is the word before it and "
        "guesses otherwise; no training changes this. The rule that the first noun decides is different for "
        "the two networks only in how fast they find it, and that depends on the seed: after 700 updates, one "
        "of three LSTMs is right in all sentences and the other two are little better than a guess, like the "
        "simple RNNs. In another run with twice as many updates and other seeds, all LSTMs and two of three "
        "simple RNNs found the rule. A weak signal from far away makes learning slow and uncertain, but it is "
        "not lost at 10 words."
    )
    variations = (
        Variation("order=12 seeds=1", "Longer n-grams: is the context the only problem of counting?"),
        Variation("steps=250 seeds=1", "Less training: does an LSTM know the rule?"),
        Variation("steps=1400", "More training: which networks find the rule?"),
    )
    exercise = Exercise(
        "A model always chooses the verb form that agrees with the last noun. The nouns have random numbers. "
        "How often is it right with one noun, and with more than one?",
        "Always with one noun, because it is the subject. With more, the last noun has the number of the "
        "subject in half of the sentences: 50 %.",
    )
    seconds = 15
    settings = AgreementSettings
    numbers = AgreementNumbers
    trains = True
    full: ClassVar[dict[str, object]] = {"seeds": 10, "sentences": 20_000, "steps": 5000, "width": 128}

    def run(self, settings: AgreementSettings) -> AgreementNumbers:
        corpora = {seed: _sentences(settings, seed) for seed in range(1, settings.seeds + 1)}
        distances = sorted({_distance(one) for corpus in corpora.values() for one in corpus.test})
        accuracy = by_kind(
            [*_COLORS],
            settings.seeds,
            lambda kind, seed: _by_distance(
                corpora[seed].test, _margins(settings, kind, seed, corpora[seed]), distances
            ),
        )
        return AgreementNumbers(distances=distances, accuracy=accuracy)

    def judge(self, numbers: AgreementNumbers) -> Judgement:
        far = {kind: [row[-1] for row in rows] for kind, rows in numbers.accuracy.items()}
        others = [far[_NGRAM], far[_RNN]]
        shown = ", ".join(f"{mean(row):.0%} with {kind}" for kind, row in far.items())
        verdict = verdict_over_seeds(
            in_every_seed=min(far[_LSTM]) >= _LEARNED and max(map(max, others)) <= _GUESSED,
            on_average=mean(far[_LSTM]) >= _LEARNED and max(map(mean, others)) <= _GUESSED,
            seeds=len(far[_LSTM]),
        )
        return Judgement(
            verdict,
            f"Correct verbs at distance {numbers.distances[-1]}, mean of {len(far[_LSTM])} seeds: {shown}.",
        )

    def table(self, numbers: AgreementNumbers) -> NumberTable:
        rows = [
            (str(distance), *(f"{mean(row[at] for row in rows):.1%}" for rows in numbers.accuracy.values()))
            for at, distance in enumerate(numbers.distances)
        ]
        return NumberTable(("words from subject to verb", *numbers.accuracy), rows)

    def draw(self, numbers: AgreementNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        points = {kind: [*map(percent, rows)] for kind, rows in numbers.accuracy.items()}
        draw_curves(panel, numbers.distances, points, _COLORS)
        panel.axhline(50, color="0.4", ls=":", label="chance")
        panel.set_xticks(numbers.distances)
        panel.set_ylim(0, 104)
        panel.set_xlabel("words from subject to verb (points: seeds)")
        panel.set_ylabel("correct verbs, %")
        panel.grid()
        panel.legend()


def _sentences(settings: AgreementSettings, seed: int) -> Sentences:
    drawn = list(generate_contrasts("agreement", settings.sentences + _TEST, seed))
    words = sorted({word for one in drawn for word in f"{one.right} {one.wrong}".split()})
    ids = {word: number for number, word in enumerate(words, FIRST)}
    training = [[ids[word] for word in one.right.split()] for one in drawn[: settings.sentences]]
    return Sentences(ids, training, drawn[settings.sentences :])


def _margins(settings: AgreementSettings, kind: str, seed: int, data: Sentences) -> list[float]:
    """Train a model; return log P(correct sentence) − log P(wrong sentence) of the test."""
    right, wrong = ([data.encode(getattr(one, side)) for one in data.test] for side in ("right", "wrong"))
    vocabulary = FIRST + len(data.ids)
    if kind == _NGRAM:
        rows = (np.array([*row, EOS]) for row in data.train)
        ngrams = Ngrams.estimate(rows, order=settings.order, vocabulary=vocabulary, prune=())
        scores = [[sum(ngrams.score([*row, EOS])) for row in side] for side in (right, wrong)]
    else:
        model = untrained_model(
            _ARCHITECTURES[kind], vocabulary=vocabulary, seed=seed, width=settings.width, layers=1
        )
        train(model, partial(_choose, rows=data.train), steps=settings.steps, seed=seed, rate=5e-3, pairs=32)
        scores = [_log_probs(model, side) for side in (right, wrong)]
    return [a - b for a, b in zip(*scores, strict=True)]


def _choose(random: Random, *, rows: Sequence[Sequence[int]]) -> Pair:
    """Draw a sentence as a target without a source."""
    return [], random.choice(rows)


@torch.no_grad()
def _log_probs(model: SequenceModel, rows: Sequence[Sequence[int]]) -> list[float]:
    """Return the log-probability of every sentence."""
    batch = pairs_batch([([], row) for row in rows])
    assert batch.target_out is not None
    log_probs = model(batch).log_softmax(dim=-1).gather(-1, batch.target_out.unsqueeze(-1))[..., 0]
    sums: list[float] = (log_probs * (batch.target_out != PAD)).sum(dim=1).tolist()
    return sums


def _distance(sentence: Contrast) -> int:
    assert sentence.distance is not None
    return sentence.distance


def _by_distance(test: Sequence[Contrast], margins: Sequence[float], distances: Sequence[int]) -> list[float]:
    """Return the share of positive margins at every distance; a distance without sentences has none."""
    found = {
        distance: [margin > 0 for one, margin in zip(test, margins, strict=True) if _distance(one) == distance]
        for distance in distances
    }
    return [mean(flags) if flags else 0.0 for flags in found.values()]


LAB = AgreementByDistance()
