"""What the code gives is what it gave when the golden files were recorded, by record.py beside this file.

Texts are compared exactly and numbers within a tolerance: weights and scores differ between machines by
rounding. Two hypotheses whose scores are that close may stand in either order.
"""

from __future__ import annotations

import difflib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
GOLDEN: dict[str, dict[str, Any]] = json.loads((HERE / "results.json").read_text(encoding="utf-8"))


def record(what: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "record.py", what, "--to", folder], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4)


def difference(golden: Any, found: Any, where: str = "") -> str | None:
    """The first place at which the recorded values are not in the new ones, which may have more keys."""
    if isinstance(golden, dict) and isinstance(found, dict):
        if missing := golden.keys() - found.keys():
            return f"{where}: {missing} is missing"
        parts = [(golden[key], found[key], f"{where}.{key}") for key in golden]
    elif isinstance(golden, list) and isinstance(found, list) and len(golden) == len(found):
        parts = [(*pair, f"{where}[{i}]") for i, pair in enumerate(zip(golden, found, strict=True))]
    elif isinstance(golden, float) and isinstance(found, float | int):
        return None if close(golden, found) else f"{where}: {golden} is now {found}"
    else:
        return None if golden == found else f"{where}: {golden!r} is now {found!r}"
    return next((place for part in parts if (place := difference(*part))), None)


def hypotheses_difference(golden: list[dict[str, Any]], found: list[dict[str, Any]]) -> str | None:
    """The first difference between two n-best lists."""
    scores = difference([one["score"] for one in golden], [one["score"] for one in found], "scores")
    return scores or difference(golden, _in_order(found, golden))


def _in_order(found: list[dict[str, Any]], golden: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The new hypotheses, those of nearly the same score in the order of the golden file."""
    left, ordered = list(found), []
    for wanted in golden:
        near = [one for one in left if close(one["score"], wanted["score"])]
        ordered.append(next((one for one in near if one["text"] == wanted["text"]), left[0]))
        left.remove(ordered[-1])
    return ordered


def result_difference(group: str, golden: Any, found: Any) -> str | None:
    if not group.startswith("translate"):
        return difference(golden, found)
    lines = zip(golden, found, strict=True)
    return next((place for old, new in lines if (place := hypotheses_difference(old, new))), None)


def test_results_are_as_recorded(tmp_path: Path) -> None:
    """Run `python tests/golden/record.py results` only after a result was wrong and is now right."""
    record("results", tmp_path)
    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert {group: list(cases) for group, cases in found.items()} == {
        group: list(cases) for group, cases in GOLDEN.items()
    }
    changed = [
        f"{group}, {name}: {place}"
        for group, cases in GOLDEN.items()
        for name, golden in cases.items()
        if (place := result_difference(group, golden, found[group][name]))
    ]
    assert not changed, "\n".join(changed)


def test_help_texts_are_as_recorded(tmp_path: Path) -> None:
    """Run `python tests/golden/record.py help` after a change of options or of their description."""
    record("help", tmp_path)
    golden, found = (
        {file.name: file.read_text(encoding="utf-8").splitlines() for file in (folder / "help").iterdir()}
        for folder in (HERE, tmp_path)
    )
    assert sorted(golden) == sorted(found)
    changed = [line for name in golden for line in difflib.unified_diff(golden[name], found[name], name, name)]
    assert not changed, "python tests/golden/record.py help\n" + "\n".join(changed)


@pytest.mark.parametrize(
    ("golden", "found"),
    [
        ([{"text": "a", "score": 1.0}], [{"text": "b", "score": 1.0}]),
        ([{"text": "a", "score": 1.0}], [{"text": "a", "score": 1.01}]),
        ([{"text": "a", "score": 1.0}], []),
        ([{"text": "a", "score": 2.0}, {"text": "b", "score": 1.0}], [{"text": "b"}, {"text": "a"}]),
        ({"loss": 1.0}, {"step": 1}),
    ],
)
def test_a_change_is_a_difference(golden: Any, found: Any) -> None:
    assert difference(golden, found) is not None


def test_hypotheses_of_nearly_equal_score_may_change_places_and_no_others() -> None:
    first, second, far = ({"text": t, "score": s} for t, s in (("a", -1.0), ("b", -1.00001), ("c", -2.0)))
    assert hypotheses_difference([first, second, far], [second, first, far]) is None
    for other in ([first, far, second], [first, second], [first, second, {**far, "text": "d"}]):
        assert hypotheses_difference([first, second, far], other) is not None
