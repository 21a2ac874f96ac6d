"""A Transformer learns the distribution of its training data, and not its rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from seqloom.inspect.picture import BLUE, GREEN, Style
from seqloom.labs.framework.lab import (
    LECTURE_9,
    Exercise,
    Judgement,
    Lab,
    Note,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.labs.framework.stored import StoredNumbers, StoredScore, measured
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEARNED, _FAILED = 95.0, 20.0  # exact match, %


class ScanSettings(Settings):
    split: Literal["length", "jump"] = Field("length", description="new lengths, or a new use of a word")
    positions: Literal["absolute", "all"] = Field(
        "absolute", description="judge sinusoidal and learned positions, or all seven kinds"
    )


class ScanNumbers(StoredNumbers):
    split: str
    judged: list[str]  # kinds of positions
    simple: StoredScore
    length: dict[str, float]
    jump: dict[str, float]

    @property
    def new(self) -> dict[str, float]:
        """Exact match on the chosen split, by kind of positions."""
        return self.jump if self.split == "jump" else self.length


class Scan(Lab[ScanSettings, ScanNumbers]):
    name = "scan"
    claim = "Transformers with absolute positions fail on commands longer than those in training"
    note = Note(LECTURE_9, "Issue: Doesn’t have an inherent notion of order")
    equation = (
        r"\mathrm{jump\ twice} \rightarrow \mathrm{JUMP\ JUMP},\qquad"
        r" \mathrm{test\ length} > \mathrm{training\ length}"
    )
    method = (
        "SCAN translates commands such as “jump around left twice” to actions, by a dozen rules. Train "
        "Transformers with seven kinds of positions on outputs of up to 22 actions and test them on 24 to 48 "
        "actions; the simple split, with equal lengths, shows that the task is learned. This takes hours, so "
        "the lab reads the numbers that benchmarks/scan.py measured."
    )
    criterion = (
        "holds: at least 95 % of the outputs are correct on the simple split, and below 20 % on the new one, "
        "for all judged kinds of positions. Holds in part: for at least one of them. Otherwise it does not "
        "hold here."
    )
    explanation = (
        "Learned positions above 22 actions never occurred in training, and sinusoidal ones occurred in no "
        "combination that the model knows: about half of the longer outputs begin correctly and end too soon. "
        "Relative distances help a little, up to 14.7 %. The split with jump, a word that occurs only alone in "
        "training, shows that positions are not the only problem: no kind of positions helps there. The lab "
        "extrapolation shows the same with a small task. One seed; the simple split was measured with "
        "sinusoidal positions only."
    )
    variations = (
        Variation("positions=all", "Does the claim hold for relative positions, too?"),
        Variation("split=jump positions=all", "A new use of a known word: do positions matter?"),
    )
    exercise = Exercise(
        "A model writes each further action correctly with probability 0.98. Which share of outputs with 20 "
        "and with 40 actions is correct, and why is this not the explanation of 0 %?",
        "0.98²⁰ = 67 % and 0.98⁴⁰ = 45 %. Independent errors lower the share slowly; 0 % means that the model "
        "has a different rule, such as to end after about 22 actions.",
    )
    seconds = 1
    settings = ScanSettings
    numbers = ScanNumbers
    measured_by = "python benchmarks/scan.py --records scan.jsonl --runs runs/scan --out scan.png"

    def run(self, settings: ScanSettings) -> ScanNumbers:
        stored = measured(self.name)
        judged = [*stored["length"]] if settings.positions == "all" else ["sinusoidal", "learned"]
        return ScanNumbers.model_validate({**stored, "split": settings.split, "judged": judged})

    def judge(self, numbers: ScanNumbers) -> Judgement:
        failed = [numbers.new[kind] < _FAILED for kind in numbers.judged]
        shown = ", ".join(f"{kind} {numbers.new[kind]:.1f} %" for kind in numbers.judged)
        reason = (
            f"Correct outputs: {numbers.simple} % on the simple split; on the {numbers.split} split {shown}. "
            f"{numbers.origin()}."
        )
        if numbers.simple.value < _LEARNED or not any(failed):
            return Judgement(Verdict.NOT_HERE, reason)
        return Judgement(Verdict.HOLDS if all(failed) else Verdict.IN_PART, reason)

    def table(self, numbers: ScanNumbers) -> NumberTable:
        rows = [
            (kind, f"{numbers.length[kind]:.1f} %", f"{numbers.jump[kind]:.1f} %") for kind in numbers.length
        ]
        return NumberTable(("positions", "new lengths", "new use of jump"), rows)

    def draw(self, numbers: ScanNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        kinds = [*numbers.length]
        panel.bar(["sinusoidal,\nsimple split"], [numbers.simple.value], color=GREEN, label="same lengths")
        panel.bar(kinds, [numbers.new[kind] for kind in kinds], color=BLUE, label=f"{numbers.split} split")
        for kind in kinds:
            panel.annotate(
                f"{numbers.new[kind]:.1f}",
                (kind, numbers.new[kind]),
                ha="center",
                va="bottom",
                fontsize=style.text,
            )
        panel.tick_params(axis="x", labelrotation=20)
        panel.set_ylim(0, 104)
        panel.set_xlabel("positions")
        panel.set_ylabel("correct outputs, %")
        panel.legend()


LAB = Scan()
