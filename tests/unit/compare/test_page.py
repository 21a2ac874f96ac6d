"""The report page: complete, self-contained, safe, with every number of the results."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from seqloom.compare.chart import Dot, Series, category_axis, line_chart, number_axis
from seqloom.compare.folder import ComparisonFolder
from seqloom.compare.page import report_page
from seqloom.compare.results import FailedRun, Results, read_results

COMMAND = "seqloom compare pairs.tsv --out cmp"


class _Text(HTMLParser):
    """Collects the text of a page and checks that its elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text.append(data)


def text_of(page: str) -> str:
    """Return the text of a well-formed page."""
    parser = _Text()
    parser.feed(page)
    assert parser.open == []
    return re.sub(r"\s+", " ", " ".join(parser.text))


@pytest.fixture(scope="module")
def results(comparison: ComparisonFolder) -> Results:
    return read_results(comparison)


def test_the_page_has_all_numbers_and_no_address(results: Results) -> None:
    page = report_page(results, COMMAND)
    text = text_of(page)
    for row in results.rows:
        assert f"{row.scores[0].value:.1f}" in text and f"{row.parameters:,}" in text
        if row.difference:
            assert f"{row.difference.p_value:.3f}" in text
    for example in results.examples:
        assert example.source in text and example.reference in text
    assert COMMAND in text and results.rows[0].scores[0].signature in text
    assert "12 test sentences" in text and "4 updates" in text
    assert not re.search(r"https?://|//[a-z]|src=|href=|@import|url\(", page.split("<body>")[0] + page)
    assert "prefers-color-scheme: dark" in page and "width=device-width" in page
    assert page.count('<svg class="chart"') == 4


def test_text_of_the_user_is_escaped(results: Results) -> None:
    evil = "<script>alert(1)</script>"
    (first, *others) = results.examples
    shown = replace(first, source=evil, reference=evil, outputs=dict.fromkeys(first.outputs, evil))
    page = report_page(replace(results, examples=[shown, *others]), f"seqloom compare {evil}")
    assert "<script" not in page and evil in text_of(page).replace(" ", "").replace(
        "script>alert", "script>alert"
    )


def test_words_are_bold_as_often_as_in_the_reference(results: Results) -> None:
    first = results.examples[0]
    shown = replace(first, reference="a b", outputs=dict.fromkeys(first.outputs, "a a B " + "x" * 400))
    page = report_page(replace(results, examples=[shown]), COMMAND)
    assert "<td><b>a</b> a <b>B</b> x" in page and "and 106 more characters" in page and "x" * 301 not in page


def test_failures_and_missing_systems_are_shown(results: Results) -> None:
    finding = {"problem": "It diverged.", "evidence": "loss nan", "advice": "lower the rate"}
    failed = FailedRun("wild", "wild", "Not enough memory.", "use less", [finding])
    text = text_of(report_page(replace(results, failed=[failed], missing=["late"]), COMMAND))
    assert "wild failed. Not enough memory." in text.replace("  ", " ")
    assert "It diverged." in text and "lower the rate" in text and "Not run yet: late" in text
    alone = text_of(report_page(replace(results, rows=[], examples=[], failed=[failed]), COMMAND))
    assert "No model has a result." in alone and "Not enough memory." in alone


def test_charts_place_points_on_their_axes() -> None:
    x, y = number_axis("x", [0.0, 8.7]), number_axis("y", [37.0])
    assert [label for _, label in x.ticks] == ["0", "2", "4", "6", "8", "10"]
    assert y.high == 40 and number_axis("n", [1_500_000.0]).ticks[-1][1] == "1.5M"
    chart = line_chart([Series(0, "a", [Dot(0, 0), Dot(10, 40, 30, 40)])], x, y, title="t")
    (points,) = re.findall(r'polyline points="([^"]*)"', chart)
    first, last = (tuple(map(float, point.split(","))) for point in points.split())
    assert first == (44, 254) and last == (408, 12)
    assert category_axis("c", ["a", "b"]).ticks == [(0.0, "a"), (1.0, "b")]
