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
}
