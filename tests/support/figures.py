"""Every figure of the package and of the benchmarks, drawn from small made-up results."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from seqloom.evaluate.alignment import Gold
from seqloom.evaluate.buckets import Bucket
from seqloom.evaluate.labels import Confusion
from seqloom.evaluate.metrics import Score
from seqloom.inspect.alignment import AlignedPair
from seqloom.inspect.attention import Attention
from seqloom.inspect.buckets import ScoresByLength
from seqloom.inspect.confusion import ConfusionMatrix
from seqloom.inspect.convergence import alignment_steps, hmm_steps
from seqloom.inspect.cost import predict
from seqloom.inspect.cost_measure import Measurement
from seqloom.inspect.cost_picture import cost_by_length
from seqloom.inspect.curves import LearningCurves
from seqloom.inspect.fresh_gradients import STACKS, DepthGradients, GainCurve, GainGradients
from seqloom.inspect.gates import GateTrace, LayerGates
from seqloom.inspect.gradient_picture import GradientComparison
from seqloom.inspect.gradients import Curve, GradientFlow
from seqloom.inspect.heads import HeadAttention
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import END
from seqloom.inspect.lengths import LengthHistograms
from seqloom.inspect.masks import MaskPicture, mask_picture
from seqloom.inspect.picture import style_named
from seqloom.inspect.positions import PositionTables, position_tables
from seqloom.inspect.searcherror import BeamErrors, SearchErrors
from seqloom.inspect.searchtree import Node, SearchTree, Survival
from seqloom.inspect.stacks import Stack, StackSearch, StackStep
from seqloom.inspect.surprisal import Surprisals
from seqloom.inspect.trees import syntax_positions
from seqloom.inspect.trellis import HiddenStates
from seqloom.inspect.untrained import open_model
from seqloom.labs.framework.lab import LabFigure
from seqloom.labs.mask import LAB as MASK
from seqloom.labs.mask import MaskNumbers
from seqloom.registry import architecture
from seqloom.statistical.hmm.recursions import Chain
from seqloom.statistical.hmm.trellis import trellis_of
from seqloom.tune.picture import StudyFigure
from seqloom.tune.report import StudyReport, TrialResult
from seqloom.types import Vocabularies

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SOURCE = ("▁a", "▁man", "▁pays", "▁$5", "▁for", "▁&quot;", "fish", "&quot;", "▁in", "▁the", "▁mar", "ket", END)
TARGET = ("▁ein", "▁Mann", "▁zahlt", "▁$5", "▁für", "▁&quot;", "Fisch", "&quot;", "▁auf", "▁dem", "▁Markt", END)
Draw = Callable[[str], Figure]


def _diagonal(rows: int, columns: int, spread: float = 1.5) -> Any:
    """Return attention weights that follow the diagonal."""
    places = np.abs(np.arange(rows)[:, None] * columns / rows - np.arange(columns))
    weights = np.exp(-places / spread)
    return weights / weights.sum(1, keepdims=True)


def attention() -> Attention:
    return Attention(SOURCE, TARGET, _diagonal(len(TARGET), len(SOURCE)))


def long_attention(words: int = 45) -> Attention:
    source = [piece for number in range(words) for piece in (f"▁word{number}", "ing")]
    target = [piece for number in range(words) for piece in (f"▁Wort{number}", "end", "e")]
    return Attention(tuple(source), tuple(target), _diagonal(len(target), len(source), 3))


def letters() -> Attention:
    source, target = (*"thoroughly", END), ("TH", "AO", "R", "OW", "L", "IY", END)
    return Attention(source, target, _diagonal(len(target), len(source)))


def frames() -> Attention:
    source = tuple(f"{0.03 * number:.2f}s" for number in range(60))
    return Attention(source, (*"seven", END), _diagonal(6, 60, 4))


def heads(layers: int, count: int) -> HeadAttention:
    grid = [
        [_diagonal(len(TARGET), len(SOURCE), 0.4 + layer + head) for head in range(count)]
        for layer in range(layers)
    ]
    return HeadAttention(SOURCE, TARGET, np.array(grid))


def gates() -> GateTrace:
    draw = np.random.default_rng(1)
    maps = {name: draw.random((len(SOURCE), 24)) for name in ("forget", "input", "output")}
    layers = [
        LayerGates(name, "lstm", SOURCE, maps, draw.normal(size=(len(SOURCE), 24)))
        for name in ("encoder 1 forward", "encoder 1 backward", "decoder 1")
    ]
    return GateTrace(tuple(layers))


def positions(kind: str, length: int = 24) -> PositionTables:
    model = open_model(Path("transformer"), ["model.width=24", f"model.positions={kind}"])
    return position_tables(model, length=length)


def masks(name: str, *assignments: str, **options: int) -> MaskPicture:
    return mask_picture(open_model(Path(name), ["model.width=24", *assignments]), **options)


def gain_curves() -> GainGradients:
    norms = {gain: tuple(gain**step for step in range(20)) for gain in (0.5, 1.0, 1.6)}
    return GainGradients(
        "identity", tuple(GainCurve(gain, gain, curve, curve) for gain, curve in norms.items())
    )


def depth_norms() -> DepthGradients:
    return DepthGradients(
        {kind: tuple(10.0 ** (n * place) for n in range(12)) for place, kind in enumerate(STACKS)}
    )


def aligned_pair() -> AlignedPair:
    source, target = (
        ["I", "think", "the", "argument", "is", "&quot;", "faulty", "&quot;", "."],
        ["le", "argument", "est", "erroné", ",", "à", "mon", "avis", "."],
    )
    weights = _diagonal(len(target), len(source), 0.6).T
    links = [(index, min(index, len(target) - 1)) for index in range(len(source))]
    gold = Gold(frozenset(links[:4]), frozenset([*links[:6], (0, 6), (1, 7)]))
    return AlignedPair(source, target, weights, weights, links, gold)


def tree() -> Inspection:
    return syntax_positions("She quickly wrote a long letter to her old friend .", "3 3 0 6 6 3 10 10 10 3 3")


def curves() -> LearningCurves:
    layers = [
        "source_embedding",
        *(f"{side}.{layer}" for side in ("encoder", "decoder") for layer in range(4)),
        "output",
    ]
    train = [
        {
            "kind": "train",
            "step": step,
            "loss": 1 + 6 / step,
            "seconds": 30.0 * step,
            "gradient_norms": {name: 0.02 * (place + 1) * (1 + 1 / step) for place, name in enumerate(layers)},
        }
        for step in range(1, 80)
    ]
    valid = [
        {"kind": "valid", "step": step, "loss": 1.1 + 6 / step, "bleu": 40 - 200 / step, "seconds": 30.0 * step}
        for step in range(10, 80, 10)
    ]
    return LearningCurves([*train, *valid], "transformer (tiny_$5)")


def buckets() -> ScoresByLength:
    def bucket(low: int, value: float) -> Bucket:
        return Bucket(low, low + 4, "tokens", Score("bleu", value, value - 4, value + 4, "", 100, True, "BLEU"))

    return ScoresByLength(
        {
            "lstm-last (runs_$5)": [bucket(low, 45 - low) for low in range(1, 40, 5)],
            "lstm-bilinear": [bucket(low, 45 - 0.3 * low) for low in range(1, 40, 5)],
            "transformer": [bucket(low, 47 - 0.2 * low) for low in range(1, 40, 5)],
        }
    )


def lengths() -> LengthHistograms:
    ranges = ["1", "2-3", "4-7", "8-15", "16-31", "32-63", "64-127", "128-255"]
    counts = dict(zip(ranges, (3, 40, 2600, 21_500, 4600, 200, 12, 1), strict=True))
    return LengthHistograms({"source words": counts, "target words": counts})


def surprisals() -> Surprisals:
    words = [
        "▁A",
        "▁man",
        "▁in",
        "▁a",
        "▁guitar",
        "▁is",
        "▁play",
        "ing",
        "▁a",
        "▁&quot;",
        "blue",
        "&quot;",
        "▁shirt",
        "▁.",
    ]
    log_probs = [-0.7 - 1.3 * (place % 5) for place in range(len(words) + 1)]
    long = [piece for number in range(40) for piece in (f"▁word{number}", "ing")]
    return Surprisals(
        [(words, log_probs), (words, log_probs[::-1]), (long, [-1.0 - (n % 7) for n in range(81)])]
    )


def hidden_states(states: int, tokens: int) -> HiddenStates:
    generator = torch.Generator().manual_seed(1)

    def some(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64) ** 4 + 1e-3

    start, transition = some(states), some(states, states)
    chain = Chain.of(start / start.sum(), transition / transition.sum(1, keepdim=True))
    names = tuple(f"{number}: &quot; people </s>" for number in range(states))
    texts = ("▁the", "▁old", "▁$5", "▁incomprehensibly")
    density = some(tokens, states)
    return HiddenStates(
        trellis_of(chain, density.log(), tuple(texts[n % 4] for n in range(tokens)), names, some(states).log())
    )


def search_tree(length: int, beam: int = 4) -> SearchTree:
    """Return a tree whose output has the best rank but once."""
    nodes, survival = [Node(0, None, 0, 0, "", 0.0, 0.0, 0.0, 1, "start", winner=True)], []
    best = 0
    for step in range(1, length + 1):
        parent = best
        rank_of_best = 2 if step == 3 else 1
        for rank in range(1, 2 * beam + 1):
            last = step == length
            fate = "pruned" if rank > beam else "completed" if last else "kept"
            winner = rank == rank_of_best
            token = END if last else ("▁Schlagzeug", "▁$5", "▁&quot;", "spieler")[(step + rank) % 4]
            total = -0.4 * step - 0.9 * rank
            nodes.append(
                Node(len(nodes), parent, 0, step, token, -0.4, total, total / step, rank, fate, (), winner)
            )
            best = nodes[-1].id if winner else best
        survival.append(
            Survival(step, nodes[best].token, rank_of_best, None if step == 2 else 3.0 - rank_of_best)
        )
    return SearchTree(
        "a man plays &quot; drums &quot;",
        "ein Mann",
        True,
        -1.0,
        SOURCE,
        beam,
        1,
        tuple(nodes),
        tuple(survival),
    )


def search_errors() -> SearchErrors:
    found = (
        BeamErrors(1, 41, 0.41, 0.3),
        BeamErrors(2, 18, 0.18, 0.2),
        BeamErrors(5, 6, 0.06, 0.1),
        BeamErrors(10, 0, 0.0, None),
    )
    return SearchErrors(100, 60, 1, found)


def stacks(words: int) -> StackSearch:
    source = tuple(("a", "&apos;s", "man", "$5")[place % 4] for place in range(words))
    steps = tuple(
        StackStep(
            start,
            min(start + 2, words),
            ("seines", "Vaters"),
            -2.0 * start - 3,
            -1.5 * (words - start),
            1 + start,
        )
        for start in range(0, words, 2)
    )
    found = tuple(Stack(size, 2000, 90 + size, 40, 10, 40 + size, 9) for size in range(1, words + 1))
    return StackSearch(source, "seines Vaters $5", -20.0, steps, found, ())


def gradients() -> GradientComparison:
    def flow(name: str, *kinds: str, rate: float, radius: float | None = None) -> GradientFlow:
        norms = [math.exp(-rate * distance) for distance in range(50)]
        curve = Curve(norms, norms, [1] * 50)
        return GradientFlow(name, 32, dict.fromkeys(kinds, curve), curve if radius else None, radius)

    return GradientComparison(
        [
            flow("rnn-last", "hidden", "target", "source", rate=0.3, radius=0.8),
            flow("lstm-last", "hidden", "cell", "target", "source", rate=0.1),
            flow("transformer (run_$5)", "target", "source", rate=0.02),
        ]
    )


def _transformer() -> torch.nn.Module:
    entry = architecture("transformer")
    settings = entry.settings.model_validate({"size": "tiny", "name": "transformer"})
    model: torch.nn.Module = entry.build(settings, Vocabularies(50, 50, True))
    return model


def confusion(count: int) -> ConfusionMatrix:
    """Return a matrix of labels that are sometimes mistaken for the next one."""
    counts = np.diag(np.full(count, 90.0)) + np.diag(np.full(count - 1, 10.0), 1)
    return ConfusionMatrix(Confusion(tuple(f"label_${n}" for n in range(count)), counts))


def study() -> StudyFigure:
    """Return trials of every state."""
    values = (("complete", 20.0), ("pruned", 12.0), ("complete", 24.0), ("failed", None))
    trials = [
        TrialResult(
            number=number,
            state=state,
            value=value,
            options={"model.dropout": 0.1 * number},
            curve={} if value is None else {33: value / 2, 100: value},
            run=f"trial-{number:03d}",
            steps=100,
            seconds=9.0,
            error=None if value else "diverged",
        )
        for number, (state, value) in enumerate(values, 1)
    ]
    return StudyFigure(StudyReport(Path("tuning"), "bleu", True, trials))


def lab() -> LabFigure:
    numbers = MaskNumbers(changed=3, masked=[0, 0, 1, 1, 0.5], unmasked=[0.2, 0.4, 1, 1, 0.5])
    return LabFigure(MASK, numbers)


INSPECTIONS: dict[str, Callable[[], Inspection]] = {
    "attention": attention,
    "attention-long": long_attention,
    "attention-very-long": lambda: long_attention(99),
    "attention-letters": letters,
    "attention-frames": frames,
    "attention-smallest": lambda: Attention(("a",), (END,), np.ones((1, 1))),
    "heads": lambda: heads(2, 4),
    "heads-many": lambda: heads(3, 8),
    "gates": gates,
    **{f"positions-{kind}": partial(positions, kind) for kind in ("sinusoidal", "learned", "alibi", "syntax")},
    "gains": gain_curves,
    "depth": depth_norms,
    "em-alignment": lambda: alignment_steps(10),
    "em-hmm": lambda: hmm_steps(20),
    "masks": lambda: masks("transformer", padding=4),
    "masks-prefix": lambda: masks("prefix-lm"),
    "masks-bigbird": lambda: masks("transformer-bigbird", "model.encoder.block=4", length=64),
    "masks-linformer": lambda: masks("transformer-linformer", "model.encoder.rank=8"),
    "alignment": aligned_pair,
    "alignment-smallest": lambda: AlignedPair(["a"], ["b"], np.eye(1), np.eye(1), [(0, 0)]),
    "tree": tree,
    "tree-smallest": lambda: syntax_positions("Go", "0"),
    "confusion": lambda: confusion(4),
    "confusion-many": lambda: confusion(40),
    "curves": curves,
    "study": study,
    "buckets": buckets,
    "lengths": lengths,
    "surprisal": surprisals,
    "surprisal-empty": lambda: Surprisals([]),
    "hidden-states": lambda: hidden_states(6, 8),
    "hidden-states-many": lambda: hidden_states(18, 14),
    "search-tree": lambda: search_tree(6),
    "search-tree-long": lambda: search_tree(12, beam=6),
    "search-errors": search_errors,
    "search-tree-empty": lambda: SearchTree(" ", "", True, 0.0, (END,), 4, 1, (), ()),
    "stacks-smallest": lambda: stacks(1),
    "stacks": lambda: stacks(8),
    "stacks-long": lambda: stacks(30),
    "gradients": gradients,
    "gradients-one-model": lambda: gradients().flows[1],
    "gradients-without-states": lambda: GradientComparison(gradients().flows[2:]),
    "cost": lambda: predict(_transformer(), 16),
    "cost-by-length": lambda: cost_by_length(_transformer()),
    "lab": lab,
    "cost-measured": lambda: Measurement(2e6, 4e6, 1e4, 1e-5, 3e-5, 16, 2),
}


@contextmanager
def _benchmarks_on_path() -> Iterator[None]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield
    finally:
        sys.path.remove(str(BENCHMARKS))


def _benchmark(name: str) -> ModuleType:
    with _benchmarks_on_path():
        return importlib.import_module(name)


def _bars(style: str) -> Figure:
    trials = _benchmark("trials")
    kinds = ["sinusoidal", "none", "learned", "relative", "rotary", "alibi", "t5"]
    bars = {kind: [99.5 - 12 * place, 97 - 12 * place, 100 - 12 * place] for place, kind in enumerate(kinds)}
    groups = {"simple": {"sinusoidal": bars["sinusoidal"]}, "length": bars, "addprim_jump": bars}
    labels = {"label": "exact match, %", "group": "split", "title": "SCAN: exact match by kind of position"}
    figure: Figure = trials.bar_figure(groups, width=9, style=style_named(style), **labels)
    return figure


def _long_task(style: str) -> Figure:
    kinds = ("full", "linformer", "bigbird", "window")
    row = {"exact": 80.0, "low": 78.0, "high": 82.0, "symbols": 90.0, "steps": 1, "milliseconds": 1.0}
    figure: Figure = _benchmark("long_task").draw([{"kind": kind, **row} for kind in kinds], style_named(style))
    return figure


def _attention_scaling(style: str) -> Figure:
    module = _benchmark("attention_scaling")
    found = [
        module.Series(
            kind,
            [module.Measurement(2**n, 1e-5 * 2 ** (n * (1 + place / 6)), 2**n * 9000, 3) for n in range(9, 15)],
        )
        for place, kind in enumerate(module.KINDS)
    ]
    figure: Figure = module.draw(found, style_named(style))
    return figure


def _ngram(style: str) -> Figure:
    module = _benchmark("ngram")
    fits = [module.Fit(n, prune, 250 / n, 10_000 * n, 1.0) for prune in module.PRUNES for n in module.ORDERS]
    figure: Figure = module.draw(fits, style_named(style))
    return figure


def _learning_curve(style: str) -> Figure:
    module = _benchmark("learning_curve")
    rows = [
        {
            "model": model,
            "pairs": size,
            "bleu": 5 + size / 1000,
            "low": 4 + size / 1000,
            "high": 6 + size / 1000,
        }
        for model in ("transformer", "phrase")
        for size in module.SIZES
    ]
    figure: Figure = module.draw(rows, style_named(style))
    return figure


def _time_to_quality(style: str) -> Figure:
    module = _benchmark("quality_report")
    points = [module.Point(step, step, step, step, 10.0 + step) for step in range(1, 30, 5)]
    names = ("seqloom", "OpenNMT-py", "Hugging Face", "Joey NMT")
    found = [
        module.Summary(name, "1.0", 30, 1.0, points[: 3 + place], points[2], 1.0, {})
        for place, name in enumerate(names)
    ]
    figure: Figure = module.draw(found, target=20.0, style=style_named(style))
    return figure


def _recall(style: str) -> Figure:
    module = _benchmark("recall_curves")
    found = [
        module.Curve(
            cell,
            start,
            training,
            1000,
            [module.Trial(n, 1, 1 / (1 + n / 50), 1, 1.0) for n in (3, 5, 10, 20, 50, 100)],
        )
        for cell, start in (("rnn", "default"), ("rnn", "orthogonal"), ("lstm", "open"), ("gru", "default"))
        for training in ("exact", "upto")
    ]
    title = "Recall by distance, width 64, up to 2,000 updates, 3 seeds"
    figure: Figure = module.draw_curves(found, chance=0.1, title=title, style=style_named(style))
    return figure


def _pareto(style: str) -> Figure:
    module = _benchmark("pareto")
    points = [
        module.Point(run, engine, beam, bleu, bleu - 1, bleu + 1, rate * speed / beam, 1.0, 1.0, 1)
        for run, bleu, speed in (("teacher", 40.0, 40.0), ("student", 39.0, 200.0), ("lstm", 36.0, 90.0))
        for rate, engine in enumerate(module.ENGINES, 1)
        for beam in module.BEAMS
    ]
    figure: Figure = module.draw(module.mark_front(points), style=style_named(style))
    return figure


def _drawn(make: Callable[[], Inspection]) -> Draw:
    return lambda style: make().plot(style=style)


FIGURES: dict[str, Draw] = {
    **{name: _drawn(make) for name, make in INSPECTIONS.items()},
    "bars": _bars,
    "long-task": _long_task,
    "attention-scaling": _attention_scaling,
    "ngram": _ngram,
    "learning-curve": _learning_curve,
    "time-to-quality": _time_to_quality,
    "recall": _recall,
    "pareto": _pareto,
}
