"""Test sentences of the report, with the outputs of all models side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

from seqloom.compare.examples import Shown
from seqloom.compare.page_tables import color
from seqloom.compare.results import Results, Row


def examples(results: Results) -> str:
    """Return the sentences by the reason for which they were chosen."""
    parts = ["<p class=note>Words of the reference are bold. The number is chrF of the sentence.</p>"]
    for reason, group in groupby(results.examples, key=lambda example: example.reason):
        heading = escape(reason[0].upper() + reason[1:])
        parts.append(f"<h3>{heading}</h3>{''.join(_example(one, results.rows) for one in group)}")
    return "".join(parts)


def _example(example: Shown, rows: Sequence[Row]) -> str:
    words = set(re.findall(r"\w+", example.reference.lower()))
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


def _marked(text: str, words: set[str]) -> str:
    """Return an output with the words of the reference in bold."""
    if not text.strip():
        return "<em>empty</em>"
    pieces = re.split(r"(\w+)", text)
    return "".join(f"<b>{escape(one)}</b>" if one.lower() in words else escape(one) for one in pieces)
