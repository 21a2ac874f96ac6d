from __future__ import annotations

import io
import json

from rich.console import Console

from seqloom.evaluate.metrics import evaluate
from seqloom.evaluate.report import Report, as_tables, make_report

SOURCES = ["cat", "house", "elephant"]
HYPOTHESES = ["K AE1 T", "HH AW1 S", "EH1 L"]
REFERENCES = [["K AE1 T"], ["HH AW1 S"], ["EH1 L AH0"]]


def report() -> Report:
    return make_report(SOURCES, HYPOTHESES, REFERENCES, "per,exact", settings={"beam": 5}, bootstrap=100)


def shown(what: Report) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(as_tables(what))
    return out.getvalue()


def test_a_report_has_the_scores_and_the_first_metric_by_length() -> None:
    made = report()
    assert made.scores == evaluate(HYPOTHESES, REFERENCES, "per,exact", bootstrap=100)
    assert {bucket.score.name for bucket in made.buckets} == {"per"}
    assert made.count == sum(bucket.count for bucket in made.buckets) == 3


def test_a_report_as_json() -> None:
    data = json.loads(json.dumps(report().as_dict()))
    assert data["count"] == 3
    assert data["settings"] == {"beam": 5}
    assert [score["name"] for score in data["scores"]] == ["per", "exact"]
    assert data["buckets"][0]["unit"] == "characters"
    assert {"low", "high", "value", "signature"} <= data["buckets"][0]["score"].keys()


def test_text_shows_scores_buckets_and_signatures() -> None:
    made = report()
    text = made.to_text()
    assert all(str(score) in text and score.signature in text for score in made.scores)
    assert "by source length in characters" in text
    assert "n=1" in text


def test_tables_show_scores_buckets_and_signatures() -> None:
    made = report()
    text = shown(made)
    assert "PER ↓" in text
    assert "exact ↑" in text
    assert f"{made.scores[0].low:.1f} – {made.scores[0].high:.1f}" in text
    assert made.scores[0].signature in text
    assert "characters" in text


def test_missing_buckets_and_intervals_are_not_shown() -> None:
    bare = Report(evaluate(HYPOTHESES, REFERENCES, "per", bootstrap=0), [], 3)
    assert "by length" not in bare.to_text() + shown(bare)
    assert "–" not in shown(bare)
