from __future__ import annotations

from itertools import pairwise

import pytest

from seqloom.errors import SeqloomError
from seqloom.evaluate.buckets import by_length
from seqloom.evaluate.metrics import evaluate

SOURCES = [" ".join("w" * n) for n in range(1, 31)]
HYPOTHESES = ["right" if n < 10 else "wrong" for n in range(1, 31)]
REFERENCES = [["right"]] * 30


def test_a_bucket_begins_at_each_edge() -> None:
    buckets = by_length(SOURCES, HYPOTHESES, REFERENCES, "exact", edges=(10, 20))
    assert [(b.low, b.high, b.count, b.score.value) for b in buckets] == [
        (1, 9, 9, 100),
        (10, 19, 10, 0),
        (20, 30, 11, 0),
    ]
    assert {bucket.unit for bucket in buckets} == {"tokens"}
    assert buckets[0].span == "1–9"


def test_empty_buckets_are_left_out() -> None:
    buckets = by_length(SOURCES, HYPOTHESES, REFERENCES, "exact", edges=(0, 100, 200))
    assert [(b.low, b.high, b.count) for b in buckets] == [(1, 30, 30)]


def test_automatic_buckets_are_about_equal_and_cover_all_lines() -> None:
    buckets = by_length(SOURCES, HYPOTHESES, REFERENCES, "exact")
    assert len(buckets) == 5
    assert sum(b.count for b in buckets) == 30
    assert max(b.count for b in buckets) - min(b.count for b in buckets) <= 2
    assert all(left.high < right.low for left, right in pairwise(buckets))


def test_single_words_are_measured_in_characters() -> None:
    words = ["cat", "house", "elephant", "a phrase"]
    buckets = by_length(words, ["x"] * 4, [["x"]] * 4, "exact", edges=(5,))
    assert [(b.low, b.high, b.unit) for b in buckets] == [(3, 3, "characters"), (5, 8, "characters")]


def test_equal_lengths_make_one_bucket() -> None:
    (bucket,) = by_length(["a b"] * 5, ["x"] * 5, [["x"]] * 5, "exact")
    assert (bucket.span, bucket.count) == ("2", 5)


def test_a_bucket_scores_its_own_lines_only() -> None:
    buckets = by_length(SOURCES, HYPOTHESES, REFERENCES, "per", edges=(15,))
    assert buckets[0].score == evaluate(HYPOTHESES[:14], REFERENCES[:14], "per")[0]
    assert buckets[0].as_dict()["count"] == 14


def test_the_signature_of_a_bucket_has_its_own_number_of_references() -> None:
    buckets = by_length(["a b", "a b c d"], ["x", "x"], [["x"], ["x", "y"]], "exact", edges=(3,))
    assert [bucket.score.signature.split("|")[1] for bucket in buckets] == ["nrefs:1", "nrefs:2"]


def test_two_metrics_are_an_error() -> None:
    with pytest.raises(SeqloomError, match="one metric, got 'exact,per'"):
        by_length(SOURCES, HYPOTHESES, REFERENCES, "exact,per")


def test_a_different_number_of_sources_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="29 sources but 30 hypotheses"):
        by_length(SOURCES[1:], HYPOTHESES, REFERENCES, "exact")
