"""EM step by step on a toy corpus: IBM 1 and a hidden Markov model, as data and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import COLORS, Style
from seqloom.statistical.alignment.align import Aligner
from seqloom.statistical.alignment.em import Direction
from seqloom.statistical.alignment.words import words_to_ids
from seqloom.statistical.hmm.emission import Categorical
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.starts import categorical_start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the document
PAIRS = (("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch"))
SENTENCES = ("the dog sleeps", "a cat sleeps", "the cat runs")
STATES = 3
_SEED = 5  # of the start of the HMM
_COLUMNS, _PANEL = 3, (3.9, 2.6)  # inches

Curves = Mapping[str, Sequence[float]]  # outcome → probability before each iteration, and after the last


@dataclass(frozen=True)
class EmSteps(Inspection):
    """Probabilities of outcomes given a word or a state, and the log-likelihood, by iteration from 0."""

    model: str
    corpus: tuple[str, ...]
    probabilities: Mapping[str, Curves]  # by what is given
    log_likelihood: tuple[float, ...]
    transitions: Mapping[str, Curves] | None = None  # of an HMM, by state

    @property
    def iterations(self) -> int:
        return len(self.log_likelihood) - 1

    def to_dict(self) -> dict[str, Any]:
        """Return corpus, probabilities and log-likelihood by iteration."""
        return {"version": VERSION, **asdict(self)}

    def _title(self) -> str:
        return f"EM of {self.model}, {self.iterations} iterations: {'; '.join(self.corpus)}"

    def _rows(self) -> int:
        return -(-(len(self.probabilities) + 1) // _COLUMNS)

    def _size(self) -> tuple[float, float]:
        return _PANEL[0] * _COLUMNS, _PANEL[1] * self._rows() + 0.7

    def _draw(self, figure: Figure, style: Style) -> None:
        panels = figure.subplots(self._rows(), _COLUMNS, squeeze=False).flatten()
        for axes in panels[len(self.probabilities) + 1 :]:
            axes.remove()
        for axes, (given, curves) in zip(panels, self.probabilities.items(), strict=False):
            shown = sorted(curves.items(), key=lambda one: -one[1][-1])[: len(COLORS) - 3]
            for (outcome, values), color in zip(shown, COLORS, strict=False):
                axes.plot(range(len(values)), values, color=color, label=outcome)
            axes.set(ylim=(-0.03, 1.03), xlabel="iteration", ylabel=f"P( · given {given})")
            axes.locator_params(axis="x", nbins=4, integer=True)
            axes.legend(frameon=False, fontsize=style.text, loc="center left", bbox_to_anchor=(1.0, 0.5))
        last = panels[len(self.probabilities)]
        last.plot(range(len(self.log_likelihood)), self.log_likelihood, color="0.3")
        last.set(xlabel="iteration", ylabel="log-likelihood")
        last.locator_params(nbins=4)


def alignment_steps(iterations: int) -> EmSteps:
    """Return t(target word given source word) of IBM 1 without a prior, on three pairs."""
    pairs = [(source.split(), target.split()) for source, target in PAIRS]
    numbers = words_to_ids(pairs)
    names = [_names(pairs, numbers, side) for side in (0, 1)]
    aligner = Aligner(numbers, prior=0.0)
    forward = aligner.directions[0]
    found = [_translations(forward, *names)]
    # The log-likelihood of an iteration is that of its start: one more iteration gives that of the end.
    aligner.train(
        "ibm1", iterations=iterations + 1, on_round=lambda _: found.append(_translations(forward, *names))
    )
    return EmSteps(
        model="IBM 1",
        corpus=tuple(f"{source} – {target}" for source, target in PAIRS),
        probabilities=_by_iteration(found[:-1]),
        log_likelihood=tuple(one.forward for one in aligner.rounds),
    )


def hmm_steps(iterations: int) -> EmSteps:
    """Return emissions and transitions of a hidden Markov model with three states, on three sentences."""
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    rows = [torch.tensor([words.index(word) for word in sentence.split()]) for sentence in SENTENCES]
    model = categorical_start(torch.ones(len(words)), STATES, torch.Generator().manual_seed(_SEED), 0.0)
    emissions, transitions, log_likelihood = [_emissions(model, words)], [_transitions(model)], list[float]()
    for _ in range(iterations + 1):
        fit = model.fit(rows, iterations=1, tolerance=-1.0)
        log_likelihood.append(fit.history[0])
        model = fit.model
        emissions.append(_emissions(model, words))
        transitions.append(_transitions(model))
    return EmSteps(
        model="a hidden Markov model",
        corpus=SENTENCES,
        probabilities=_by_iteration(emissions[:-1]),
        log_likelihood=tuple(log_likelihood),
        transitions=_by_iteration(transitions[:-1]),
    )


Table = dict[str, dict[str, float]]


def _names(pairs: Sequence[tuple[list[str], list[str]]], numbers: Any, side: int) -> dict[int, str]:
    """Return the word of each id of a side."""
    return {
        int(id): word
        for words, ids in zip(pairs, numbers, strict=True)
        for word, id in zip(words[side], ids[side], strict=True)
    }


def _translations(direction: Direction, sources: dict[int, str], targets: dict[int, str]) -> Table:
    """Return t(target given source) of every word pair that occurs, and of the null word."""
    bitext, found = direction.bitext, Table()
    entries = zip(bitext.source, bitext.target, direction.translations.words, strict=True)
    for source, target, probability in entries:
        found.setdefault(sources[int(source)], {})[targets[int(target)]] = float(probability)
    found["the null word"] = {name: float(direction.translations.null[id]) for id, name in targets.items()}
    return found


def _emissions(model: Hmm, words: Sequence[str]) -> Table:
    assert isinstance(model.emission, Categorical)
    rows = model.emission.probabilities.tolist()
    return {f"state {state}": dict(zip(words, row, strict=True)) for state, row in enumerate(rows, 1)}


def _transitions(model: Hmm) -> Table:
    rows = [model.start.tolist(), *model.transition.tolist()]
    names = ["start", *(f"state {state}" for state in range(1, STATES + 1))]
    return {name: dict(zip(names[1:], row, strict=True)) for name, row in zip(names, rows, strict=True)}


def _by_iteration(tables: Sequence[Table]) -> dict[str, dict[str, tuple[float, ...]]]:
    """Return the tables of the iterations as one table of curves."""
    return {
        given: {outcome: tuple(table[given][outcome] for table in tables) for outcome in row}
        for given, row in tables[0].items()
    }
