"""Search errors: how often a beam misses the best output, by beam size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from seqloom.decode.config import SearchConfig
from seqloom.decode.exact import improve
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import BLUE, Style
from seqloom.inspect.searchtree import problem_of
from seqloom.types import Request

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROUNDING = 1e-4  # scores closer than this count as equal: batches round differently


class ScoredOutput(NamedTuple):
    """Output of a search, for comparison. A truncated output is worse than any finished one."""

    finished: bool
    score: float
    text: str = ""


@dataclass(frozen=True)
class BeamErrors:
    """Search errors of one beam size."""

    beam: int
    missed: int  # sentences for which a better output is known
    share: float
    gap: float | None  # mean score difference over missed sentences that finished; None: there are none


@dataclass(frozen=True)
class SearchErrors(Inspection):
    """Search errors of all beams; a lower bound unless the best output of every sentence is proved."""

    sentences: int
    proved: int  # sentences whose best output is proved to be optimal
    proved_empty: int  # of these, sentences whose best output is empty
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
    """Return the search errors of the beam sizes on the non-empty lines.

    The reference is the output of an exact search, if it expands at most `expand` hypotheses; otherwise it is
    the best output that any of the beams found.
    """
    lines = [line for line in lines if translator.tokenizers.source.encode(line)]
    if not lines:
        raise SeqloomError("There are no lines to translate.", "give a file that is not empty")
    outputs = {beam: _beam_outputs(translator, lines, beam) for beam in beams}
    references, proofs = [], []
    for i, line in enumerate(lines):
        known = max((found[i] for found in outputs.values()), key=lambda one: one[:2])
        best = _exact(translator, line, known, expand)
        references.append(best or known)
        proofs.append(best is not None)
        on_progress(1)
    return SearchErrors(
        sentences=len(lines),
        proved=sum(proofs),
        proved_empty=sum(proof and not one.text.strip() for proof, one in zip(proofs, references, strict=True)),
        beams=tuple(_compare(beam, found, references) for beam, found in outputs.items()),
    )


def _beam_outputs(translator: TorchTranslator, lines: Sequence[str], beam: int) -> list[ScoredOutput]:
    found = translator.translate(lines, beam=beam, nbest=1)
    return [ScoredOutput(best.finished, best.score, best.text) for (best,) in found]


def _exact(translator: TorchTranslator, line: str, known: ScoredOutput, expand: int) -> ScoredOutput | None:
    """Return the best output, or None if proving it takes too long."""
    search = SearchConfig.checked({**translator.search.model_dump(), "nbest": 1}, "search")
    problem = problem_of(translator, Request(line), search)
    found = improve(problem, is_finished=known.finished, score=known.score, limit=expand)
    if not found.proved:
        return None
    if found.best is None:
        return known
    best = found.best
    return ScoredOutput(best.finished, best.score, translator.tokenizers.target.decode(best.tokens))


def _compare(beam: int, outputs: Sequence[ScoredOutput], references: Sequence[ScoredOutput]) -> BeamErrors:
    missed = [
        (output, best)
        for output, best in zip(outputs, references, strict=True)
        if output.finished < best.finished
        or (output.finished == best.finished and output.score < best.score - _ROUNDING)
    ]
    gaps = [best.score - output.score for output, best in missed if output.finished == best.finished]
    return BeamErrors(
        beam=beam,
        missed=len(missed),
        share=len(missed) / len(outputs),
        gap=sum(gaps) / len(gaps) if gaps else None,
    )
