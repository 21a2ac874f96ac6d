"""Reduced settings of every lab, and fixed numbers that give each of the three verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from seqloom.labs.framework.lab import Verdict


@dataclass(frozen=True)
class LabCase:
    """Settings for a run in a test, and numbers as plain data by the verdict that they must give."""

    holds: dict[str, Any]
    in_part: dict[str, Any]
    not_here: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    verdict: Verdict = Verdict.HOLDS  # of the run with these settings

    @property
    def by_verdict(self) -> dict[Verdict, dict[str, Any]]:
        return {Verdict.HOLDS: self.holds, Verdict.IN_PART: self.in_part, Verdict.NOT_HERE: self.not_here}


def _vanish(rate: float) -> dict[str, Any]:
    return {"gains": [{"gain": 0.5, "norms": [1.0, 0.5, 0.25], "rate": rate}]}


def _cell(change: float) -> dict[str, Any]:
    return {
        "kept": {"forget_bias": 20, "changes": [0.0, change]},
        "others": [{"forget_bias": 0, "changes": [0.5, 1.0]}],
    }


def _order(none: float, sinusoidal: float, learned: float) -> dict[str, Any]:
    differences = {"none": none, "sinusoidal": sinusoidal, "learned": learned}
    return {"first": "a b", "second": "b a", "differences": differences}


def _scale(entropy: float, gradient: float) -> dict[str, Any]:
    wide = {"width": 1024, "entropy": entropy, "scaled_entropy": 4.0, "gradient": gradient}
    return {"keys": 64, "widths": [{**wide, "scaled_gradient": 1.0}]}


def _mask(*unmasked: float) -> dict[str, Any]:
    return {"changed": 3, "masked": [0.0, 0.0, 1.0], "unmasked": [*unmasked, 1.0]}


def _heads(*counts: int) -> dict[str, Any]:
    """Return numbers with these FLOPs of one, two, ... heads."""
    rows = enumerate(counts, 1)
    return {"measured": [{"heads": n, "parameters": 9, "flops": flops, "weights": n} for n, flops in rows]}


def _averages(*attention: float, feed_forward: float = 1.0) -> dict[str, Any]:
    layers = enumerate(attention, 1)
    rest = {"feed_forward": feed_forward, "spread": 0.5}
    return {"layers": [{"layer": n, "attention": one, **rest} for n, one in layers]}


def _distance(recurrent: float, attention: float) -> dict[str, Any]:
    """Return numbers with these factors by which the gradients fall."""
    return {"recurrent": [1.0, 1 / recurrent], "attention": [1.0, 1 / attention]}


def _depth(both: float, neither: float) -> dict[str, Any]:
    ratios = {"both": both, "residual only": 1.0, "norm only": 1.0, "neither": neither}
    return {"norms": {kind: [ratio, 1.0] for kind, ratio in ratios.items()}}


def _cost(attention: int, recurrent: int, width: int) -> dict[str, Any]:
    """Return numbers at n = 32 and 64, with these FLOPs at n = 64."""
    flops = {"self-attention": [100, attention], "LSTM": [150, recurrent]}
    flops |= {"Linformer": [90, 180], "BigBird": [95, 190]}
    return {
        "width": width,
        "lengths": [32, 64],
        "flops": flops,
        "seconds": {kind: [1.0, 2.0] for kind in flops},
    }


def _beams(*errors: float) -> dict[str, Any]:
    """Return numbers of the beams 1, 2, ... and of the exhaustive one."""
    rows = enumerate((*errors, 0.0), 1)
    searches = [{"beam": n, "expansions": 3.0 * n, "errors": error, "loss": error} for n, error in rows]
    return {"searches": searches, "length": 3, "prefixes": 3 * len(searches)}


def _lengths(plain: int, normalised: int) -> dict[str, Any]:
    return {"expected": [10.0], "plain": [plain], "normalised": [normalised]}


def _bleu(paraphrase: float, helped: float) -> dict[str, Any]:
    sentence = {"reference": "a", "paraphrase": paraphrase, "wrong": 50.0, "helped": helped}
    return {"metric": "bleu", "references": 3, "sentences": [sentence]}


def _clip(clipped: float, unclipped: float) -> dict[str, Any]:
    step = {"gain": 1.0, "gradient": 100.0, "clipped": clipped, "unclipped": unclipped}
    return {"bound": 0.1, "steps": [step]}


def _sums(*sums: float, undefined: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"sums": list(sums), "undefined": list(undefined)}


def _bottleneck(last: float, attention: float, seeds: int = 3) -> dict[str, Any]:
    """Return numbers with these accuracies at the larger of two lengths."""
    ends = {"last state": last, "mean of states": 0.5, "attention": attention}
    return {"lengths": [2, 12], "accuracy": {kind: [[1.0, end]] * seeds for kind, end in ends.items()}}


def _unmasked(unmasked: float, generating: float, seeds: int = 3) -> dict[str, Any]:
    one = {"masked": 1.5, "unmasked": unmasked, "generating": generating}
    return {"entropy": 1.4, "seeds": [one] * seeds}


def _extrapolation(inside: float, beyond: float, seeds: int = 3) -> dict[str, Any]:
    return {"longest": 10, "inside": {"learned": [inside] * seeds}, "beyond": {"learned": [beyond] * seeds}}


def _scores(*additive: float) -> dict[str, Any]:
    """Return numbers with these accuracies of the seeds with additive scores."""
    others = dict.fromkeys(("dot product", "multiplicative"), (0.9,) * len(additive))
    return {"longest": 10, "accuracy": {**others, "additive": additive}}


def _forcing(stepwise: float, difference: float = 1e-7) -> dict[str, Any]:
    """Return numbers with this processor time of a Transformer step by step, relative to that at once."""
    one = {"at_once": [1.0, 1.0], "stepwise": [1.0, stepwise], "difference": difference}
    return {"lengths": [8, 16], "models": {"Transformer": one, "LSTM": one}}


def _memory(simple: int, lstm: int, seeds: int = 3) -> dict[str, Any]:
    """Return numbers of models that remember so many steps."""
    distances = [1, 15, 30, 50, 100]
    reach = {"simple RNN": simple, "LSTM": lstm, "LSTM, forget bias": 100}
    rows = {kind: [float(one <= steps) for one in distances] for kind, steps in reach.items()}
    return {"distances": distances, "accuracy": {kind: [row] * seeds for kind, row in rows.items()}}


def _score(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 1, "high": value + 1}


_ORIGIN = {"command": "python", "date": "2026-11-16", "machine": "one thread", "options": "tiny"}


def _data_size(*neural: float) -> dict[str, Any]:
    """Return numbers with the scores 10 and 20 of the statistical model, and these of the neural one."""
    scores = {"statistical": [_score(10.0), _score(20.0)], "neural": [*map(_score, neural)]}
    return {**_ORIGIN, "pairs": [500, 2000], **scores}


def _pretraining(both: float) -> dict[str, Any]:
    scores = {"random": _score(10.0), "encoder": _score(12.0), "both": _score(both)}
    return {**_ORIGIN, "judged": "both", "baseline": "random", **scores}


def _scan(sinusoidal: float, learned: float) -> dict[str, Any]:
    length = {"sinusoidal": sinusoidal, "learned": learned}
    scores = {"simple": _score(99.0), "length": length, "jump": length}
    return {**_ORIGIN, "split": "length", "judged": [*length], **scores}


def _aligned(attention: float, seeds: int = 3) -> dict[str, Any]:
    rates = {"attention": attention, "IBM model 1": 0.07, "HMM": 0.01}
    return {"aer": {kind: [rate] * seeds for kind, rate in rates.items()}}


def _exploded(*unclipped: float) -> dict[str, Any]:
    """Return numbers with these last losses without clipping; the first one is 100."""
    losses = {"clipped": [[100.0, 2.4]] * len(unclipped), "not clipped": [[100.0, one] for one in unclipped]}
    return {"losses": losses}


def _bidirectional(forward: float, both: float, seeds: int = 3) -> dict[str, Any]:
    return {"bound": 0.5, "accuracy": {"forward only": [forward] * seeds, "both directions": [both] * seeds}}


def _hmm_length(hmm: float, lstm: float, seeds: int = 3) -> dict[str, Any]:
    """Return numbers with these accuracies on long sequences; the others are 0.9."""
    hidden = {"HMM": [[0.9, 0.9, hmm]] * seeds, "LSTM": [[0.9, 0.9, lstm]] * seeds}
    return {"lengths": [5, 10, 50], "hidden": hidden, "first": hidden}


def _pooling(last: float, pooled: float, seeds: int = 3) -> dict[str, Any]:
    """Return numbers with these accuracies at the first of two positions."""
    accuracy = {"last state": [[last, 1.0]] * seeds, "mean of states": [[pooled, 1.0]] * seeds}
    return {"positions": [1, 2], "accuracy": accuracy}


def _agreement(simple: float, lstm: float, seeds: int = 3) -> dict[str, Any]:
    """Return numbers with these accuracies at the larger of two distances."""
    far = {"n-grams": 0.5, "simple RNN": simple, "LSTM": lstm}
    return {"distances": [1, 10], "accuracy": {kind: [[1.0, one]] * seeds for kind, one in far.items()}}


CASES = {
    "vanish": LabCase(
        settings={"width": 8, "steps": 12, "sentences": 1},
        holds=_vanish(0.5049),
        in_part=_vanish(0.5051),
        not_here=_vanish(0.56),
    ),
    "cell-keeps": LabCase(
        settings={"width": 8, "steps": 1000}, holds=_cell(9e-6), in_part=_cell(2e-5), not_here=_cell(0.02)
    ),
    "order-blind": LabCase(
        holds=_order(1e-7, 0.1, 0.1), in_part=_order(1e-7, 0.1, 1e-7), not_here=_order(1e-3, 0.1, 0.1)
    ),
    "scale": LabCase(
        settings={"queries": 200},
        holds=_scale(0.39, 0.09),
        in_part=_scale(0.41, 0.4),
        not_here=_scale(0.5, 0.6),
    ),
    "mask": LabCase(holds=_mask(0.1, 0.1), in_part=_mask(0.1, 0.0), not_here=_mask(0.0, 0.0)),
    "heads-cost": LabCase(holds=_heads(100, 100), in_part=_heads(100, 105), not_here=_heads(100, 200)),
    "no-ffn": LabCase(
        settings={"layers": 3, "width": 16},
        holds=_averages(1e-9, 1e-9),
        in_part=_averages(1e-9, 0.1),
        not_here=_averages(1e-9, feed_forward=1e-9),
    ),
    "distance": LabCase(
        settings={"distance": 16, "width": 16, "layers": 1, "sentences": 1},
        holds=_distance(101, 9),
        in_part=_distance(99, 9),
        not_here=_distance(99, 11),
    ),
    "depth": LabCase(
        settings={"width": 16, "sentences": 2},
        holds=_depth(0.11, 9e-4),
        in_part=_depth(0.09, 9e-4),
        not_here=_depth(0.09, 2e-3),
    ),
    "cost": LabCase(
        settings={"lengths": (8, 16, 64, 128), "width": 8, "rank": 4, "block": 4},
        holds=_cost(380, 300, width=24),
        in_part=_cost(380, 300, width=64),
        not_here=_cost(300, 200, width=24),
    ),
    "beam": LabCase(
        settings={"words": 3, "length": 4, "sentences": 30, "beams": (1, 2)},
        holds=_beams(0.5, 0.2),
        in_part=_beams(0.2, 0.5),
        not_here=_beams(0.0, 0.0),
    ),
    "length-bias": LabCase(
        settings={"sentences": 12, "longest": 8, "beam": 30},
        holds=_lengths(7, 10),
        in_part=_lengths(7, 12),
        not_here=_lengths(8, 10),
    ),
    "bleu": LabCase(holds=_bleu(10.0, 20.0), in_part=_bleu(10.0, 19.0), not_here=_bleu(60.0, 61.0)),
    "clip": LabCase(
        settings={"gains": (1.0, 2.0), "length": 12, "width": 8},
        holds=_clip(0.1, 1.1),
        in_part=_clip(0.1, 0.9),
        not_here=_clip(0.11, 1.1),
    ),
    "strict-mask": LabCase(
        holds=_sums(1.0, 1.0),
        in_part=_sums(0.0, 1.0),
        not_here=_sums(0.0, 1.0, undefined=(1,)),
        verdict=Verdict.NOT_HERE,
    ),
    "bottleneck": LabCase(
        settings={"seeds": 1, "steps": 2, "width": 8, "lengths": (2, 4)},
        holds=_bottleneck(0.79, 0.9),
        in_part=_bottleneck(0.79, 0.9, seeds=2),
        not_here=_bottleneck(0.81, 0.9),
        verdict=Verdict.NOT_HERE,  # after two updates
    ),
    "unmasked": LabCase(
        settings={"seeds": 1, "steps": 40, "symbols": 6, "length": 8, "width": 16},
        holds=_unmasked(1.1, 1.8),
        in_part=_unmasked(1.1, 1.8, seeds=2),
        not_here=_unmasked(1.1, 1.6),
        verdict=Verdict.IN_PART,  # of one seed
    ),
    "extrapolation": LabCase(
        settings={"seeds": 1, "steps": 2, "width": 8, "longest": 4, "positions": ("learned",)},
        holds=_extrapolation(0.9, 0.49),
        in_part=_extrapolation(0.9, 0.49, seeds=2),
        not_here=_extrapolation(0.9, 0.5),
        verdict=Verdict.NOT_HERE,  # after two updates
    ),
    "scores": LabCase(
        settings={"seeds": 1, "steps": 2, "width": 8, "longest": 4},
        holds=_scores(0.8, 0.8, 0.8),
        in_part=_scores(0.79, 0.8, 0.8),
        not_here={"longest": 10, "accuracy": {"additive": [0.79] * 3}},
        verdict=Verdict.NOT_HERE,  # after two updates
    ),
    "teacher-forcing": LabCase(
        settings={"lengths": (4, 48), "width": 16, "sentences": 1},
        holds=_forcing(10.1),
        in_part=_forcing(9.9),
        not_here=_forcing(10.1, difference=1e-3),
    ),
    "memory": LabCase(
        settings={"seeds": 1, "steps": 2, "width": 8, "distances": (1, 4)},
        holds=_memory(15, 100),
        in_part=_memory(30, 100),
        not_here=_memory(15, 50),
        verdict=Verdict.NOT_HERE,  # after two updates
    ),
    "data-size": LabCase(
        holds=_data_size(5.0, 25.0),
        in_part=_data_size(9.0, 25.0),
        not_here=_data_size(11.0, 25.0),
        verdict=Verdict.IN_PART,  # the intervals with 29,000 pairs overlap
    ),
    "pretraining": LabCase(holds=_pretraining(15.0), in_part=_pretraining(14.0), not_here=_pretraining(11.0)),
    "scan": LabCase(holds=_scan(0.0, 19.0), in_part=_scan(0.0, 21.0), not_here=_scan(21.0, 21.0)),
    "alignment-for-free": LabCase(
        settings={"seeds": 1, "steps": 2, "width": 8, "pairs": 20},
        holds=_aligned(0.1),
        in_part=_aligned(0.2),
        not_here=_aligned(0.26),
        verdict=Verdict.NOT_HERE,  # after two updates
    ),
    "explode": LabCase(
        settings={"seeds": 1, "steps": 20},
        holds=_exploded(1e12, 200.0, 101.0),
        in_part=_exploded(1e12, 200.0, 2.4),
        not_here=_exploded(1e12, 2.4, 2.4),
        verdict=Verdict.IN_PART,  # of one seed
    ),
    "bidirectional": LabCase(
        settings={"seeds": 1, "steps": 2, "width": 8, "length": 4},
        holds=_bidirectional(0.54, 0.95),
        in_part=_bidirectional(0.54, 0.95, seeds=2),
        not_here=_bidirectional(0.56, 0.95),
        verdict=Verdict.NOT_HERE,  # after two updates
    ),
    "hmm-length": LabCase(
        settings={"seeds": 1, "steps": 2, "width": 8, "length": 4, "sequences": 20},
        holds=_hmm_length(0.84, 0.9),
        in_part=_hmm_length(0.84, 0.9, seeds=2),
        not_here=_hmm_length(0.86, 0.9),
        verdict=Verdict.NOT_HERE,
    ),
    "pooling": LabCase(
        settings={"seeds": 1, "steps": 2, "width": 8, "length": 4},
        holds=_pooling(0.8, 0.95),
        in_part=_pooling(0.8, 0.95, seeds=2),
        not_here=_pooling(0.81, 0.95),
        verdict=Verdict.NOT_HERE,  # after two updates
    ),
    "agreement": LabCase(
        settings={"seeds": 1, "sentences": 100, "steps": 2, "width": 8},
        holds=_agreement(0.65, 0.95),
        in_part=_agreement(0.65, 0.95, seeds=2),
        not_here=_agreement(0.66, 0.95),
        verdict=Verdict.NOT_HERE,  # after two updates
    ),
}
