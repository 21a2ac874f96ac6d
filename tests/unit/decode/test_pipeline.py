"""Items are decoded in batches of similar length, and results are returned in order."""

from __future__ import annotations

from seqloom.decode.pipeline import BatchedResults


def test_results_are_in_the_order_of_the_items() -> None:
    items, seen = ["aaa", "", "b", "cccc", "dd", ""], list[int]()
    found = BatchedResults([len(item) for item in items], empty="nothing", on_progress=seen.append)
    batches = list(found.batches(batch_tokens=10, alone=[2, 1]))
    assert batches == [[2], [3, 0], [4]]  # item 1 is empty, item 2 alone; 2 x (4 + 1) tokens fit, 3 do not
    for places in batches:
        found.put(places, [items[i].upper() for i in places])
    assert found.results == ["AAA", "nothing", "B", "CCCC", "DD", "nothing"]
    assert (sum(seen), seen[0]) == (len(items), 2)  # empty items are reported immediately


def test_rows_share_the_budget() -> None:
    lengths = [3, 3, 3, 3]
    found = BatchedResults(lengths, empty=0)
    assert list(found.batches(batch_tokens=16)) == [[0, 1, 2, 3]]
    assert list(found.batches(batch_tokens=16, rows=2)) == [[0, 1], [2, 3]]
