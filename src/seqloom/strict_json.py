"""Standard JSON: without NaN and Infinity, which Python writes by default and other programs reject."""

from __future__ import annotations

import json
import math


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON; a number that is not finite, such as the log-probability -inf, becomes null."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    """Return a copy with None in place of every number that is not finite."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _finite(one) for name, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
    return value
