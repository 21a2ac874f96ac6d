"""Base class of the labs. A lab tests one claim of lecture notes by an experiment with a fixed criterion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import Style
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Verdict(StrEnum):
    """Outcome of an experiment."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    NOT_HERE = "does not hold here"


@dataclass(frozen=True)
class Judgement:
    """Verdict and its reason, with the numbers that decided."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Note:
    """Place of a claim in lecture notes."""

    notes: str
    section: str

    def __str__(self) -> str:
        return f"{self.notes}, {self.section}"


LECTURE_2 = "CS190C Lecture 2"
LECTURE_6 = "Lecture 6, Simple and LSTM RNNs"
LECTURE_7 = "Lecture 7, Translation, Seq2Seq, Attention"
LECTURE_9 = "Lecture 9, Self-Attention and Transformers"
SELF_ATTENTION = "Notes on self-attention and Transformers"
NOTES_ON_SEQ2SEQ = "Sequence2Sequence models and transformers"
ADRL = "ADRL notes, Sequence to sequence models"


@dataclass(frozen=True)
class Variation:
    """Settings worth changing, and the question that the changed run answers."""

    settings: str  # as after --set, separated by spaces
    question: str


@dataclass(frozen=True)
class Exercise:
    """Question for the reader and its solution."""

    question: str
    solution: str


class Numbers(BaseModel):
    """Measured numbers of an experiment: all that its verdict and its figure depend on."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class NumberTable:
    """Numbers as text, for the terminal and for reports."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


S = TypeVar("S", bound=Settings)
N = TypeVar("N", bound=Numbers)


class Lab(ABC, Generic[S, N]):
    """An experiment on one claim.

    A module of `seqloom.labs` defines a subclass and an instance of it called `LAB`. The defaults of the
    settings are the quick mode; `full` has the values that differ in the full mode. `judge` is a pure function
    of the numbers, so a stored result is judged by the present criterion.
    """

    name: ClassVar[str]
    claim: ClassVar[str]
    note: ClassVar[Note]
    equation: ClassVar[str]  # TeX, in the subset of matplotlib
    method: ClassVar[str]
    criterion: ClassVar[str]
    explanation: ClassVar[str]  # why the outcome is as it is
    variations: ClassVar[Sequence[Variation]]
    exercise: ClassVar[Exercise]
    seconds: ClassVar[float]  # processor time of the quick mode, approximately
    settings: ClassVar[type[Settings]]
    numbers: ClassVar[type[Numbers]]
    full: ClassVar[Mapping[str, object]] = {}
    trains: ClassVar[bool] = False
    measured_by: ClassVar[str] = ""  # command that measures stored numbers again, for labs that take hours

    @abstractmethod
    def run(self, settings: S) -> N:
        """Run the experiment; equal settings give equal numbers, except measured times."""

    @abstractmethod
    def judge(self, numbers: N) -> Judgement:
        """Apply the criterion."""

    @abstractmethod
    def table(self, numbers: N) -> NumberTable:
        """Return the main numbers as text."""

    @abstractmethod
    def draw(self, numbers: N, figure: Figure, style: Style) -> None:
        """Fill an empty figure."""

    def plot(self, numbers: N) -> LabFigure:
        """Return the figure of the numbers."""
        return LabFigure(self, numbers)


@dataclass(frozen=True)
class LabFigure(Inspection):
    """Figure of an experiment."""

    lab: Lab[Any, Any]
    numbers: Numbers

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers."""
        return {"lab": self.lab.name, "numbers": self.numbers.model_dump(mode="json")}

    def _title(self) -> str:
        return self.lab.claim

    def _size(self) -> tuple[float, float]:
        return 9.0, 5.0

    def _draw(self, figure: Figure, style: Style) -> None:
        self.lab.draw(self.numbers, figure, style)
