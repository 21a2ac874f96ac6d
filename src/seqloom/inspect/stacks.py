"""How the stack decoder found a translation: which phrases, in which order, and what each stack held."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.inspect.picture import check_suffix, new_figure, save_figure
from seqloom.statistical.phrase.graph import Arc, SearchGraph
from seqloom.statistical.phrase.nbest import Derivation, best
from seqloom.statistical.phrase.translator import PhraseTranslator, readable, spelled, target_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHOSEN, COVERED, LINE, TEXT = "#1d4f8c", "#e6edf6", "#cfd6de", "#1c2733"
KEPT, RECOMBINED, PRUNED = "#1d4f8c", "#8fb3dd", "#d9dde2"
_COLUMN, _ROW = 0.82, 0.36  # inches


@dataclass(frozen=True)
class Step:
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
class StackSearch:
    """One search from the empty hypothesis to the answer."""

    source: tuple[str, ...]
    answer: str
    score: float
    steps: tuple[Step, ...]
    stacks: tuple[Stack, ...]
    future: tuple[tuple[float, ...], ...]  # [start][length - 1]: the estimate of every span

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


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


def _steps(graph: SearchGraph, answer: Derivation, tokens: list[str]) -> list[Step]:
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
        steps.append(Step(piece.start, piece.stop, words, arc.score, future, better + 1))
        said += len(words)
    return steps


def stacks_picture(search: StackSearch, path: Path) -> None:
    """Writes the phrases over the source, their scores, and the stacks below: PNG, SVG or PDF by the suffix."""
    check_suffix(path)
    columns, rows = len(search.source), len(search.steps)
    bars = 4.5  # the height of the lower panel, in rows
    width = max(5.0, columns * _COLUMN)
    figure = new_figure(width + 3.2, (rows + bars + 2.2) * _ROW)
    axes = figure.subplots(
        2,
        2,
        width_ratios=(width, 3.2),
        height_ratios=(rows + 1, bars),
        gridspec_kw={"hspace": 0.8 / (rows + bars), "wspace": 0.03},
    )
    _phrases(axes[0][0], search)
    _scores(axes[0][1], search)
    _counts(axes[1][0], search)
    axes[1][1].axis("off")
    axes[0][0].set_title(search.answer, loc="left", fontsize=11, weight="bold", parse_math=False)
    save_figure(figure, path)


def _phrases(axes: Axes, search: StackSearch) -> None:
    """A column per source word, a row per phrase in the order of the target."""
    from matplotlib.patches import FancyBboxPatch, Rectangle

    columns, rows = len(search.source), len(search.steps)
    covered: set[int] = set()
    for row, step in enumerate(search.steps):
        for place in range(columns):
            face = COVERED if place in covered else "#ffffff"
            axes.add_patch(Rectangle((place, row), 1, 1, fc=face, ec=LINE, lw=0.6))
        corner, size = (step.start + 0.09, row + 0.17), (step.stop - step.start - 0.18, 0.66)
        box = "round,pad=0.03,rounding_size=0.12"
        axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=box, fc=CHOSEN, ec=CHOSEN, zorder=3))
        _fitted(axes, (step.start + step.stop) / 2, row + 0.5, " ".join(step.target), step.stop - step.start)
        covered |= set(range(step.start, step.stop))
    for place, word in enumerate(search.source):
        _fitted(axes, place + 0.5, -0.3, word, 1, colour=TEXT, weight="bold")
    axes.set_xlim(-0.05, columns + 0.05)
    axes.set_ylim(rows + 0.05, -0.7)
    axes.axis("off")


def _fitted(
    axes: Axes, x: float, y: float, text: str, cells: int, *, colour: str = "#ffffff", weight: str = "normal"
) -> None:
    """A text in the middle of so many cells, in smaller letters if it is long."""
    room = 8.6 * cells  # characters of size 8
    size = max(4.5, min(8.5, 8 * room / max(len(text), 1)))
    most = int(room * 8 / 4.5)
    shown = text if len(text) <= most else text[: most - 1] + "…"
    place: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 4, "parse_math": False}
    axes.text(x, y, shown, fontsize=size, color=colour, weight=weight, **place)


def _scores(axes: Axes, search: StackSearch) -> None:
    """A bar per phrase: what is said, and the estimate of what is to come; and the rank in the stack."""
    kept = {stack.words: stack.kept for stack in search.stacks}
    rows, covered = len(search.steps), 0
    lowest = min(0.0, *(step.score + min(step.future, 0.0) for step in search.steps))
    for row, step in enumerate(search.steps):
        covered += step.stop - step.start
        said = min(step.score, 0.0)
        axes.barh(row + 0.5, -said, height=0.52, color=CHOSEN)
        axes.barh(row + 0.5, -step.future, left=-said, height=0.52, color=RECOMBINED)
        note = f"{step.score + step.future:.1f}   {step.rank} of {kept[covered]}".replace("-", "−")
        axes.text(-lowest * 1.05, row + 0.5, note, fontsize=7.5, va="center", color=TEXT)
    axes.text(-lowest * 1.05, -0.3, "sum   rank in stack", fontsize=7.5, va="center", color="0.4")
    axes.text(0, -0.3, "said + to come", fontsize=7.5, va="center", color="0.4")
    axes.set_xlim(0, max(-lowest, 1e-9) * 1.75)
    axes.set_ylim(rows + 0.05, -0.7)
    axes.axis("off")


def _counts(axes: Axes, search: StackSearch) -> None:
    """A bar per stack: kept, recombined and pruned."""
    chosen, covered = set(), 0
    for step in search.steps:
        covered += step.stop - step.start
        chosen.add(covered)
    top = max((stack.made for stack in search.stacks), default=1)
    for stack in search.stacks:
        x, bottom = stack.words - 0.5, 0
        parts = ((stack.kept, KEPT), (stack.recombined, RECOMBINED), (stack.pruned, PRUNED))
        for height, colour in parts:
            axes.bar(x, height, bottom=bottom, width=0.62, color=colour)
            bottom += height
        axes.text(x, bottom + top * 0.03, f"of {stack.offered:,}", ha="center", fontsize=6.5, color="0.4")
    axes.set_xlim(-0.05, len(search.source) + 0.05)
    axes.set_ylim(0, top * 1.15)
    axes.set_xticks([stack.words - 0.5 for stack in search.stacks], [str(s.words) for s in search.stacks])
    axes.tick_params(length=0, labelsize=8)
    for stack, label in zip(search.stacks, axes.get_xticklabels(), strict=True):
        through = stack.words in chosen
        label.set(color=CHOSEN if through else "0.6", weight="bold" if through else "normal")
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.set_xlabel("stack: source words covered (bold: the answer came through it)", fontsize=8)
    _legend(axes)


def _legend(axes: Axes) -> None:
    from matplotlib.patches import Patch

    parts = (("pruned", PRUNED), ("recombined", RECOMBINED), ("kept", KEPT))
    axes.legend(
        handles=[Patch(fc=colour, label=name) for name, colour in parts],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.05),
        fontsize=8,
        title="hypotheses made,\nof all that were possible",
        title_fontsize=8,
        alignment="left",
        frameon=False,
    )
