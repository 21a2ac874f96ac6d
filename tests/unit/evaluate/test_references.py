from __future__ import annotations

from seqloom.evaluate.references import group_by_source


def test_lines_with_the_same_source_become_alternatives_in_order() -> None:
    pairs = [("the", "DH AH0"), ("cat", "K AE1 T"), ("the", "DH IY0"), ("the", "DH AH0")]
    assert group_by_source(pairs) == (["the", "cat"], [["DH AH0", "DH IY0"], ["K AE1 T"]])


def test_no_lines_give_no_groups() -> None:
    assert group_by_source([]) == ([], [])
