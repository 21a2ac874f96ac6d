"""Comparison of two systems on the same lines."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from seqloom.evaluate.metrics import parse_metrics
from seqloom.evaluate.report import make_report
from seqloom.evaluate.significance import compare
from seqloom.evaluate.versus import Versus, as_table, versus

SHORT, LONG = [f"a {n}" for n in range(20)], [f"b c d e f {n}" for n in range(20)]
SOURCES = SHORT + LONG
REFERENCES = [[source] for source in SOURCES]
GOOD = list(SOURCES)
BAD = SHORT + [f"x x x x x {n}" for n in range(20)]  # as good on short lines, much worse on long ones


@pytest.fixture(scope="module")
def result() -> Versus:
    metrics = parse_metrics("wer,exact")
    reports = tuple(make_report(SOURCES, texts, REFERENCES, metrics, bootstrap=100) for texts in (GOOD, BAD))
    return versus("bad", SOURCES, (GOOD, BAD), REFERENCES, metrics, reports, bootstrap=100)  # type: ignore[arg-type]


def test_the_overall_comparison_equals_compare(result: Versus) -> None:
    for metric, comparison in zip(parse_metrics("wer,exact"), result.overall, strict=True):
        assert comparison == compare(GOOD, BAD, REFERENCES, metric, bootstrap=100)


def test_a_bucket_compares_only_its_own_lines(result: Versus) -> None:
    by_length = {bucket.low: comparison for bucket, comparison in result.by_length}
    assert by_length.keys() == {2, 6}
    assert by_length[2].delta == 0 and by_length[2].winner() is None
    assert by_length[6].a == 0 and by_length[6].b > 80 and by_length[6].winner() == "a"
    assert [comparison.count for comparison in by_length.values()] == [20, 20]


def test_as_json_and_as_a_table(result: Versus) -> None:
    data = json.loads(json.dumps(result.as_dict()))
    assert data["name"] == "bad"
    assert [part["from"] for part in data["comparisons_by_length"]] == [2, 6]
    assert data["scores"][0]["value"] == pytest.approx(result.overall[0].b)
    console = Console(width=120)
    with console.capture() as captured:
        console.print(as_table(result))
    text = captured.get()
    assert "against bad" in text and "WER, 6 tokens" in text
