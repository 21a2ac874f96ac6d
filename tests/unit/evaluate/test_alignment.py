"""Scores of links, computed by hand, and the formats of links."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.evaluate.alignment import (
    AlignmentScore,
    Gold,
    parse_gold,
    parse_links,
    pharaoh,
    score_alignment,
)


def test_scores_equal_those_computed_by_hand() -> None:
    gold = [parse_gold("0-0 1p1 2?1"), parse_gold("0-1 1-0")]
    score = score_alignment([{(0, 0), (1, 1), (2, 2)}, np.array([[0, 1]])], gold)
    # 4 links, of which 3 are possible; 3 sure links, of which 2 are found
    assert (score.links, score.sure, score.found_possible, score.found_sure) == (4, 3, 3, 2)
    assert score.precision == 3 / 4
    assert score.recall == 2 / 3
    assert score.f1 == pytest.approx(12 / 17)
    assert score.aer == pytest.approx(1 - 5 / 7)


def test_perfect_and_empty_alignments_have_no_error() -> None:
    gold = Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))
    assert score_alignment([[(0, 0), (1, 1)]], [gold]).aer == 0
    assert AlignmentScore().aer == AlignmentScore().f1 == 0
    assert score_alignment([[]], [gold]).aer == 1


def test_a_link_counts_once_however_often_it_is_given() -> None:
    gold = parse_gold("0-0")
    assert score_alignment([[(0, 0), (0, 0)]], [gold]).links == 1


def test_the_numbers_of_sentences_must_match() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        score_alignment([[]], [])


def test_gold_may_count_from_one() -> None:
    assert parse_gold("1-2 3p4", first=1) == Gold(frozenset({(0, 1)}), frozenset({(0, 1), (2, 3)}))
    assert parse_gold("") == Gold(frozenset(), frozenset())


@pytest.mark.parametrize("word", ["1", "1-", "a-b", "1--2", "1-2-3", "1x2", "²-1"])
def test_an_invalid_link_is_an_error(word: str) -> None:
    with pytest.raises(SeqloomError, match=r"gold, line 7, contains .*, which is not a link"):
        parse_gold(f"0-0 {word}", where="gold, line 7,")


def test_a_zero_among_links_from_one_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="'0-3', which is not a link") as error:
        parse_gold("0-3", first=1)
    assert "positions from 1" in error.value.hint


def test_links_round_trip_through_the_file_format() -> None:
    links = np.array([[0, 0], [10, 2]], dtype=np.int32)
    assert pharaoh(links) == "0-0 10-2"
    assert parse_links(pharaoh(links)) == {(0, 0), (10, 2)}
    assert pharaoh(np.empty((0, 2), dtype=np.int32)) == ""


def test_the_score_as_json_has_rates_and_counts() -> None:
    found = score_alignment([[(0, 0)]], [parse_gold("0-0 1-1")]).as_dict()
    assert found == {
        "aer": pytest.approx(1 / 3),
        "precision": 1.0,
        "recall": 0.5,
        "f1": pytest.approx(2 / 3),
        "sentences": 1,
        "links": 1,
        "sure": 2,
        "found_sure": 1,
        "found_possible": 1,
    }
