"""A good paraphrase gets a low BLEU, and more references help."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from seqloom.evaluate.metrics import evaluate
from seqloom.inspect.picture import BLUE, SKY, VERMILLION, Style
from seqloom.labs.framework.lab import (
    LECTURE_7,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 0.75  # share of the sentences
_GAIN = 10.0  # points of the metric

# Reference, paraphrase with the same meaning, output with another meaning, other references.
_SENTENCES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "The meeting was cancelled because the director was ill.",
        "As the director fell ill, they called off the meeting.",
        "The meeting was cancelled because the director was rich.",
        (
            "They called off the meeting as the director was ill.",
            "The director fell ill, so the meeting was off.",
        ),
    ),
    (
        "He bought a cheap car last week.",
        "Last week he purchased an inexpensive car.",
        "He sold a cheap car last week.",
        ("He purchased an inexpensive car last week.", "Last week he bought a cheap car."),
    ),
    (
        "The children are not allowed to swim in the lake.",
        "Swimming in the lake is forbidden for children.",
        "The children are now allowed to swim in the lake.",
        (
            "Children are forbidden to swim in the lake.",
            "Swimming in the lake is not allowed for the children.",
        ),
    ),
    (
        "The price of oil rose by five percent.",
        "Oil became five percent more expensive.",
        "The price of oil fell by five percent.",
        ("Oil prices went up by five percent.", "Oil is now five percent more expensive."),
    ),
    (
        "She gave her brother the keys before she left.",
        "Before leaving, she handed the keys to her brother.",
        "She gave her mother the keys before she left.",
        (
            "She handed the keys to her brother before she left.",
            "Before leaving, she gave her brother the keys.",
        ),
    ),
    (
        "The train to Paris leaves at nine in the morning.",
        "At 9 am the Paris train departs.",
        "The train to Paris leaves at nine in the evening.",
        (
            "The Paris train departs at nine in the morning.",
            "At nine in the morning the train to Paris departs.",
        ),
    ),
    (
        "Nobody knows why the machine stopped.",
        "The reason for the failure of the machine is unknown.",
        "Everybody knows why the machine stopped.",
        ("It is unknown why the machine stopped.", "The reason why the machine stopped is unknown."),
    ),
    (
        "It will probably rain tomorrow afternoon.",
        "Rain is likely tomorrow in the afternoon.",
        "It will probably snow tomorrow afternoon.",
        ("Rain is likely tomorrow afternoon.", "Tomorrow in the afternoon it will likely rain."),
    ),
)


class BleuSettings(Settings):
    metric: Literal["bleu", "chrf", "chrf++", "rougel"] = Field("bleu", description="metric")
    references: int = Field(3, ge=1, le=3, description="references per sentence in the second measurement")


class SentenceNumbers(Numbers):
    reference: str
    paraphrase: float  # score against one reference
    wrong: float  # score of the output with another meaning
    helped: float  # score of the paraphrase against all references


class BleuNumbers(Numbers):
    metric: str
    references: int
    sentences: list[SentenceNumbers]


class Bleu(Lab[BleuSettings, BleuNumbers]):
    name = "bleu"
    claim = "A good translation can get a low BLEU, and more references help"
    note = Note(LECTURE_7, "Evaluation")
    equation = (
        r"\mathrm{BLEU} = \min(1, e^{1 - r/c}) \left( p_1\, p_2\, p_3\, p_4 \right)^{1/4},\qquad"
        r" p_n = \frac{\mathrm{matched\ n\ grams}}{\mathrm{n\ grams\ of\ the\ output}}"
    )
    method = (
        "Take eight fixed sentences with two outputs each: a paraphrase with the same meaning, and a sentence "
        "in which one word is changed so that the meaning is wrong. Score both against one reference, and the "
        "paraphrase also against three references."
    )
    criterion = (
        "holds: the wrong output scores higher than the paraphrase for at least 75 % of the sentences, and "
        "three references raise the mean score of the paraphrases by at least 10 points. Holds in part: one "
        "of the two. Otherwise it does not hold here."
    )
    explanation = (
        "BLEU counts n-grams that output and reference share. One wrong word destroys at most four 4-grams; a "
        "paraphrase shares hardly any. With more references, more n-grams count as correct. On a corpus, such "
        "errors average out in part, so a difference between two similar systems is more reliable than the "
        "score of one sentence. The sentences were written for this lab: they show that such cases exist, not "
        "how often."
    )
    variations = (
        Variation("metric=chrf", "Character n-grams: does the paraphrase get closer to the wrong output?"),
        Variation("references=2", "How much does one more reference help?"),
        Variation("metric=rougel", "The longest common subsequence: does another word order cost less?"),
    )
    exercise = Exercise(
        "A sentence has 10 words and one of them in the middle is wrong. How many of its 4-grams match the "
        "reference?",
        "It has 7 four-grams, and those that contain the wrong word, up to 4, do not match: at least 3 "
        "match. A wrong word at the end costs only one 4-gram.",
    )
    seconds = 1
    settings = BleuSettings
    numbers = BleuNumbers

    def run(self, settings: BleuSettings) -> BleuNumbers:
        sentences = [
            SentenceNumbers(
                reference=reference,
                paraphrase=_score(settings.metric, paraphrase, [reference]),
                wrong=_score(settings.metric, wrong, [reference]),
                helped=_score(settings.metric, paraphrase, [reference, *others][: settings.references]),
            )
            for reference, paraphrase, wrong, others in _SENTENCES
        ]
        return BleuNumbers(metric=settings.metric, references=settings.references, sentences=sentences)

    def judge(self, numbers: BleuNumbers) -> Judgement:
        fooled = mean(one.wrong > one.paraphrase for one in numbers.sentences)
        one_reference = mean(one.paraphrase for one in numbers.sentences)
        several = mean(one.helped for one in numbers.sentences)
        reason = (
            f"The wrong output scores higher for {fooled:.0%} of the sentences; {numbers.references} "
            f"references change the mean score of the paraphrases from {one_reference:.1f} to {several:.1f}."
        )
        found = (fooled >= _MOST) + (several - one_reference >= _GAIN)
        return Judgement((Verdict.NOT_HERE, Verdict.IN_PART, Verdict.HOLDS)[found], reason)

    def table(self, numbers: BleuNumbers) -> NumberTable:
        rows = [
            (one.reference, f"{one.paraphrase:.1f}", f"{one.helped:.1f}", f"{one.wrong:.1f}")
            for one in numbers.sentences
        ]
        columns = ("reference", "paraphrase", f"with {numbers.references} references", "wrong meaning")
        return NumberTable(columns, rows)

    def draw(self, numbers: BleuNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        places = range(len(numbers.sentences))
        for name, label, color, shift in (
            ("paraphrase", "same meaning, 1 reference", BLUE, -0.27),
            ("helped", f"same meaning, {numbers.references} references", SKY, 0.0),
            ("wrong", "wrong meaning, 1 reference", VERMILLION, 0.27),
        ):
            values = [getattr(one, name) for one in numbers.sentences]
            panel.bar([place + shift for place in places], values, width=0.27, color=color, label=label)
        panel.set_xticks(places, [str(place + 1) for place in places])
        panel.set_xlabel("sentence")
        panel.set_ylabel(f"{numbers.metric.upper()} of the sentence")
        panel.grid(axis="y")
        panel.legend()
        panel.margins(y=0.3)


def _score(metric: str, output: str, references: Sequence[str]) -> float:
    (score,) = evaluate([output], [list(references)], metric, bootstrap=0)
    return score.value


LAB = Bleu()
