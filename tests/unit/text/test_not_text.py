"""Values that are not strings, and one string in place of a list of texts, are rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.errors import SeqloomError
from seqloom.types import Request

RUNS = Path(__file__).parents[2] / "golden" / "fixtures"
NONE: Any = None


@pytest.mark.parametrize(
    "use",
    [
        lambda: seqloom.load(RUNS / "transformer").translate([Request(NONE)]),
        lambda: seqloom.load(RUNS / "transformer").translate([Request("a", required=(NONE,))]),
        lambda: seqloom.load(RUNS / "phrase").translate(Request(NONE)),
        lambda: seqloom.load_generator(RUNS / "lm").beam([NONE], 2),
        lambda: seqloom.load_filler(RUNS / "mlm").fill([NONE]),
        lambda: seqloom.load_scorer(RUNS / "lstm").score([("a", NONE)]),
    ],
)
def test_a_value_that_is_not_a_string_is_rejected(use: Callable[[], object]) -> None:
    with pytest.raises(SeqloomError, match="Expected a string, got NoneType: None"):
        use()


@pytest.mark.parametrize(
    "use",
    [
        lambda: seqloom.load_generator(RUNS / "lm").beam("le chat", 2),
        lambda: seqloom.load_generator(RUNS / "lm").sample("le chat", seqloom.SamplingConfig(samples=1)),
        lambda: seqloom.load_filler(RUNS / "mlm").fill("le [MASK] ."),
    ],
)
def test_one_string_is_not_a_list_of_texts(use: Callable[[], object]) -> None:
    with pytest.raises(SeqloomError, match="Expected a list of texts, got one string: 'le"):
        use()


def test_one_run_is_not_a_list_of_runs() -> None:
    with pytest.raises(SeqloomError, match="An ensemble needs a list of runs"):
        seqloom.load_ensemble(str(RUNS / "lstm"))
