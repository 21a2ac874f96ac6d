"""How often a beam misses the best answer there is, by its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from seqloom.decode.config import SearchConfig
from seqloom.decode.reference import exhaustive_search
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.likely import Likely, floor_to_win
from seqloom.inspect.picture import BLUE, Style
from seqloom.inspect.searchtree import problem_of
from seqloom.types import Request

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROUNDING = 1e-4  # scores nearer than this are the same answer, or as good: batches round differently


class Answer(NamedTuple):
    """What is compared of an answer. One that was cut is worse than any that ended."""

    finished: bool
    score: float
    text: str = ""


@dataclass(frozen=True)
class BeamErrors:
    """How one beam size did."""

    beam: int
    missed: int  # sentences whose best known answer scores higher than the beam's
    share: float
    gap: float | None  # in score, the mean over those that it missed but ended; None: there are none


@dataclass(frozen=True)
class SearchErrors(Inspection):
    """How all beams did; where the best answer is not proved, they did at least as badly as this."""

    sentences: int
    proved: int  # sentences whose best answer is the best there is
    proved_empty: int  # of these, sentences whose best answer says nothing
    beams: tuple[BeamErrors, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the errors of every beam."""
        return asdict(self)

    def _title(self) -> str:
        return f"Search errors by beam size, {self.sentences:,} sentences"

    def _size(self) -> tuple[float, float]:
        return 6.0, 3.4

    def _draw(self, figure: Figure, style: Style) -> None:
        axes = figure.subplots()
        bars = axes.bar(
            [str(one.beam) for one in self.beams], [100 * one.share for one in self.beams], color=BLUE
        )
        axes.bar_label(bars, [f"{one.missed:,}" for one in self.beams], padding=2)
        least = "at least " if self.proved < self.sentences else ""
        axes.set_xlabel("beam size (above the bars: number of sentences)")
        axes.set_ylabel(f"best output missed,\n{least}% of sentences")
        axes.margins(y=0.15)


def search_errors(
    translator: TorchTranslator,
    lines: Sequence[str],
    beams: Sequence[int],
    *,
    expand: int = 1000,
    on_progress: Callable[[int], None] = lambda lines: None,
) -> SearchErrors:
    """The errors of these beams on these lines, the empty ones left out.

    The mark is the best answer of an exact search, if that needs to continue no more than `expand` hypotheses;
    else the best that any of the beams found.
    """
    lines = [line for line in lines if translator.tokenizers.source.encode(line)]
    if not lines:
        raise SeqloomError("There is no line to search for an answer to.", "give a file with text in it")
    answers = {beam: _answers(translator, lines, beam) for beam in beams}
    marks, proofs = [], []
    for i, line in enumerate(lines):
        known = max((found[i] for found in answers.values()), key=lambda one: one[:2])
        best = _exact(translator, line, known, expand)
        marks.append(best or known)
        proofs.append(best is not None)
        on_progress(1)
    return SearchErrors(
        sentences=len(lines),
        proved=sum(proofs),
        proved_empty=sum(proof and not mark.text.strip() for proof, mark in zip(proofs, marks, strict=True)),
        beams=tuple(_compare(beam, found, marks) for beam, found in answers.items()),
    )


def _answers(translator: TorchTranslator, lines: Sequence[str], beam: int) -> list[Answer]:
    found = translator.translate(lines, beam=beam, nbest=1)
    return [Answer(best.finished, best.score, best.text) for (best,) in found]


def _exact(translator: TorchTranslator, line: str, known: Answer, expand: int) -> Answer | None:
    """The best answer there is; None if that takes too long to prove."""
    search = SearchConfig.checked({**translator.search.model_dump(), "nbest": 1}, "search")
    asked = problem_of(translator, Request(line), search)
    plan, longest = asked.plan, asked.max_length
    model = asked.model
    if known.finished:  # what cannot lead to a better score need not be looked at
        model = Likely(model, floor=floor_to_win(plan.ranking, known.score, longest))
    try:
        best = exhaustive_search(
            model, asked.sentence, max_length=longest, ranking=plan.ranking, rules=plan.rules, limit=expand
        )
    except SeqloomError:
        return None
    return Answer(best.finished, best.score, translator.tokenizers.target.decode(best.tokens))


def _compare(beam: int, answers: Sequence[Answer], marks: Sequence[Answer]) -> BeamErrors:
    missed = [
        (answer, mark)
        for answer, mark in zip(answers, marks, strict=True)
        if answer.finished < mark.finished
        or (answer.finished == mark.finished and answer.score < mark.score - _ROUNDING)
    ]
    gaps = [mark.score - answer.score for answer, mark in missed if answer.finished == mark.finished]
    return BeamErrors(
        beam=beam,
        missed=len(missed),
        share=len(missed) / len(answers),
        gap=sum(gaps) / len(gaps) if gaps else None,
    )
