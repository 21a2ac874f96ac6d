from __future__ import annotations

import random

import pytest

from seqloom.errors import SeqloomError
from seqloom.evaluate.significance import compare

REFERENCES = [[f"w{i} x y z"] for i in range(200)]


def system(share_right: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [answers[0] if rng.random() < share_right else "wrong" for answers in REFERENCES]


def test_a_system_does_not_differ_from_itself() -> None:
    same = compare(system(0.5, 0), system(0.5, 0), REFERENCES, "exact")
    assert (same.delta, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    assert same.winner() is None


def test_a_clear_difference_is_found_in_either_direction() -> None:
    worse, better = system(0.3, 1), system(0.7, 2)
    up = compare(worse, better, REFERENCES, "exact")
    assert up.delta == pytest.approx(up.b - up.a)
    assert 0 < up.low < up.delta < up.high
    assert up.p_value < 0.01
    assert up.winner() == "b"
    down = compare(worse, better, REFERENCES, "per")
    assert down.high < 0
    assert down.winner() == "b"
    assert compare(better, worse, REFERENCES, "per").winner() == "a"


def test_false_positives_are_about_as_frequent_as_the_significance_level() -> None:
    called = sum(
        compare(system(0.5, 2 * i), system(0.5, 2 * i + 1), REFERENCES, "exact", bootstrap=300).winner()
        is not None
        for i in range(60)
    )
    assert called <= 9  # 3 expected; more than 9 has a probability below one in a thousand


def test_a_paired_test_is_more_sensitive_than_separate_intervals() -> None:
    base = system(0.5, 3)
    mended = list(base)
    for i in [i for i, line in enumerate(base) if line == "wrong"][:8]:
        mended[i] = REFERENCES[i][0]
    assert compare(base, mended, REFERENCES, "exact").winner() == "b"


def test_a_comparison_as_text() -> None:
    text = str(compare(system(0.3, 1), system(0.7, 2), REFERENCES, "exact"))
    assert text.startswith("exact ")
    assert "→" in text
    assert "p = 0.0" in text


@pytest.mark.parametrize(
    "a, metric, bootstrap, message",
    [
        (["x"], "exact", 10, "1 hypotheses but references for 200"),
        (system(0.5, 0), "exact,per", 10, "one metric"),
        (system(0.5, 0), "exact", 0, "bootstrap sample, got 0"),
    ],
)
def test_invalid_arguments_are_errors(a: list[str], metric: str, bootstrap: int, message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        compare(a, system(0.5, 0), REFERENCES, metric, bootstrap=bootstrap)
