"""The search of a stack decoder: which phrases, in which order, and what each stack held."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import readable as readable_text
from seqloom.inspect.picture import Style
from seqloom.statistical.phrase.graph import Arc, SearchGraph
from seqloom.statistical.phrase.nbest import Derivation, best
from seqloom.statistical.phrase.translator import PhraseTranslator, readable, spelled, target_tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class StackStep:
    """A phrase of the answer: the source words that it covers, and how its hypothesis stood in its stack."""

    start: int
    stop: int
    target: tuple[str, ...]
    score: float  # of all that is said so far
    future: float  # the estimate of what is to come
    rank: int  # in the stack, from 1, by their sum


@dataclass(frozen=True)
class Stack:
    """What happened to the hypotheses that cover so many words."""

    words: int
    offered: int  # combinations of a hypothesis and an option
    made: int
    recombined: int
    pruned: int
    kept: int
    coverages: int  # different sets of covered words among those kept


@dataclass(frozen=True)
class StackSearch(Inspection):
    """One search from the empty hypothesis to the output."""

    source: tuple[str, ...]
    answer: str
    score: float
    steps: tuple[StackStep, ...]
    stacks: tuple[Stack, ...]
    future: tuple[tuple[float, ...], ...]  # [start][length - 1]: the estimate of every span

    def to_dict(self) -> dict[str, Any]:
        """Return phrases, stacks and all future costs."""
        return asdict(self)

    def _title(self) -> str:
        return f"Phrases and stacks: {readable_text(' '.join(self.source))} → {readable_text(self.answer)}"

    def _size(self) -> tuple[float, float]:
        from seqloom.inspect.stacks_picture import page_size

        return page_size(self)

    def _draw(self, figure: Figure, style: Style) -> None:
        from seqloom.inspect.stacks_picture import draw_stacks

        draw_stacks(self, figure, style)


def stack_search(translator: PhraseTranslator, text: str, *, beam: int | None = None) -> StackSearch:
    """The search for the best translation of a text."""
    decoder, words = translator.decode(text, beam=beam)
    sentence = decoder.read(words)
    graph = decoder.search(sentence, keep=True)
    (answer,) = best(graph, 1)
    length = sentence.length
    future = tuple(tuple(sentence.future[i][i + 1 :]) for i in range(length))
    return StackSearch(
        source=tuple(readable(words.surfaces)),
        answer=spelled(translator.tokenizers, answer),
        score=answer.score,
        steps=tuple(_steps(graph, answer, target_tokens(translator.tokenizers, answer))),
        stacks=tuple(
            Stack(words=size, coverages=len({covered for covered, _ in kept}), **asdict(count))
            for size, (count, kept) in enumerate(zip(graph.stacks, graph.kept, strict=True), 1)
        ),
        future=future,
    )


def _steps(graph: SearchGraph, answer: Derivation, tokens: list[str]) -> list[StackStep]:
    """The steps of the answer, which is the first way to the goal, and where each stood."""
    arcs: list[Arc] = [graph.goal.arcs[0]]
    while (previous := arcs[0].previous) is not None and previous.arcs[0].option is not None:
        arcs.insert(0, previous.arcs[0])
    steps, said, covered = [], 0, 0
    for number, (arc, piece) in enumerate(zip(arcs, answer.pieces, strict=True)):
        covered += arc.stop - arc.start
        here = arcs[number + 1].previous if number + 1 < len(arcs) else None
        future = here.rank - here.score if here else 0.0
        better = sum(one.rank > arc.score + future for _, one in graph.kept[covered - 1])
        words = tuple(tokens[said : said + len(piece.option.words)])
        steps.append(StackStep(piece.start, piece.stop, words, arc.score, future, better + 1))
        said += len(words)
    return steps
