"""Search of a stack decoder: phrases of the output, and contents of the stacks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from seqloom.inspect.inspection import WITH_PAGE, Inspection
from seqloom.inspect.labels import readable as readable_text
from seqloom.inspect.picture import Style
from seqloom.statistical.phrase.graph import Arc, SearchGraph
from seqloom.statistical.phrase.nbest import Derivation, best
from seqloom.statistical.phrase.translator import PhraseTranslator, readable, spelled, target_tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the document


@dataclass(frozen=True)
class StackStep:
    """Phrase of the output: the source words that it covers, and the rank of its hypothesis in its stack."""

    start: int
    stop: int
    target: tuple[str, ...]
    score: float  # of the hypothesis so far
    future: float  # estimated score of the rest
    rank: int  # in the stack, from 1, by score + future


@dataclass(frozen=True)
class Stack:
    """Counts of the hypotheses that cover a number of words."""

    words: int
    offered: int  # combinations of a hypothesis and an option
    made: int
    recombined: int
    pruned: int
    kept: int
    coverages: int  # different sets of covered words among those kept


@dataclass(frozen=True)
class StackSearch(Inspection):
    """Search from the empty hypothesis to the output."""

    formats = WITH_PAGE

    source: tuple[str, ...]
    answer: str
    score: float
    steps: tuple[StackStep, ...]
    stacks: tuple[Stack, ...]
    future: tuple[tuple[float, ...], ...]  # [start][length - 1]: estimate of every span

    def to_dict(self) -> dict[str, Any]:
        """Return phrases, stacks and future costs."""
        return {"view": "stacks", "version": VERSION, **asdict(self)}

    def _title(self) -> str:
        return f"Phrases and stacks: {readable_text(' '.join(self.source))} → {readable_text(self.answer)}"

    def _size(self) -> tuple[float, float]:
        from seqloom.inspect.stacks_picture import page_size

        return page_size(self)

    def _draw(self, figure: Figure, style: Style) -> None:
        from seqloom.inspect.stacks_picture import draw_stacks

        draw_stacks(self, figure, style)


def stack_search(translator: PhraseTranslator, text: str, *, beam: int | None = None) -> StackSearch:
    """Return the search for the best translation of a text."""
    decoder, words = translator.decode(text, beam=beam)
    sentence = decoder.read(words)
    graph = decoder.search(sentence, keep=True)
    (derivation,) = best(graph, 1)
    length = sentence.length
    future = tuple(tuple(sentence.future[i][i + 1 :]) for i in range(length))
    return StackSearch(
        source=tuple(readable(words.surfaces)),
        answer=spelled(translator.tokenizers, derivation),
        score=derivation.score,
        steps=tuple(_steps(graph, derivation, target_tokens(translator.tokenizers, derivation))),
        stacks=tuple(
            Stack(words=size, coverages=len({covered for covered, _ in kept}), **asdict(count))
            for size, (count, kept) in enumerate(zip(graph.stacks, graph.kept, strict=True), 1)
        ),
        future=future,
    )


def _steps(graph: SearchGraph, derivation: Derivation, tokens: list[str]) -> list[StackStep]:
    """Return the steps of the best derivation, with their ranks."""
    arcs: list[Arc] = [graph.goal.arcs[0]]
    while (previous := arcs[0].previous) is not None and previous.arcs[0].option is not None:
        arcs.insert(0, previous.arcs[0])
    steps, emitted, covered = [], 0, 0
    for number, (arc, piece) in enumerate(zip(arcs, derivation.pieces, strict=True)):
        covered += arc.stop - arc.start
        node = arcs[number + 1].previous if number + 1 < len(arcs) else None
        future = node.rank - node.score if node else 0.0
        better = sum(one.rank > arc.score + future for _, one in graph.kept[covered - 1])
        words = tuple(tokens[emitted : emitted + len(piece.option.words)])
        steps.append(StackStep(piece.start, piece.stop, words, arc.score, future, better + 1))
        emitted += len(words)
    return steps
