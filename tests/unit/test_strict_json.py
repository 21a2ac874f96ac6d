"""JSON without NaN and Infinity."""

from __future__ import annotations

import json
import math

from seqloom.strict_json import json_text


def test_numbers_that_are_not_finite_are_null() -> None:
    value = {"a": [1.5, -math.inf, (math.nan, "é")], "b": {"c": math.inf}, "d": True}
    expected = {"a": [1.5, None, [None, "é"]], "b": {"c": None}, "d": True}
    assert json.loads(json_text(value), parse_constant=_refuse) == expected
    assert json.loads(json_text(value, indent=2), parse_constant=_refuse) == expected


def test_everything_else_is_as_json_writes_it() -> None:
    value = {"text": "é\n", "numbers": [1, 2.0, None], "empty": {}}
    assert json_text(value) == json.dumps(value, ensure_ascii=False)
    assert json_text(value, indent=2) == json.dumps(value, ensure_ascii=False, indent=2)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
