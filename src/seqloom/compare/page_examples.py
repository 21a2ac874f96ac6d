"""Test sentences of the report, with the outputs of all models side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import groupby

from seqloom.compare.examples import Shown
from seqloom.compare.page_tables import color
from seqloom.compare.results import Results, Row

_LONGEST = 300  # characters of an output that are shown


def examples(results: Results) -> str:
    """Return the sentences by the reason for which they were chosen."""
    parts = ["<p class=note>Words of the reference are bold. The number is chrF of the sentence.</p>"]
    for reason, group in groupby(results.examples, key=lambda example: example.reason):
        heading = escape(reason[0].upper() + reason[1:])
        parts.append(f"<h3>{heading}</h3>{''.join(_example(one, results.rows) for one in group)}")
    return "".join(parts)


def _example(example: Shown, rows: Sequence[Row]) -> str:
    words = Counter(re.findall(r"\w+", example.reference.lower()))
    outputs = "".join(
        f'<tr><th class="{color(number)}"><i></i>{escape(row.label)}</th>'
        f"<td>{_marked(example.outputs[row.label], words)}</td>"
        f"<td class=chrf>{example.scores[row.label]:.0f}</td></tr>"
        for number, row in enumerate(rows)
    )
    return (
        f"<article><p class=source>{escape(example.source)}</p>"
        f"<p class=reference>{escape(example.reference)}</p>"
        f"<table class=outputs>{outputs}</table></article>"
    )


def _marked(text: str, words: Counter[str]) -> str:
    """Return an output with the words of the reference in bold, each at most as often as there."""
    if not text.strip():
        return "<em>empty</em>"
    left, parts = words.copy(), []
    for piece in re.split(r"(\w+)", text[:_LONGEST]):
        is_matched = left[piece.lower()] > 0
        left[piece.lower()] -= is_matched
        parts.append(f"<b>{escape(piece)}</b>" if is_matched else escape(piece))
    rest = len(text) - _LONGEST
    return "".join(parts) + (f" … <em>and {rest:,} more characters</em>" if rest > 0 else "")
