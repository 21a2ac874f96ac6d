"""Split of the data into a training, a validation and a test part, made once for all models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from seqloom.compare.folder import PartSizes
from seqloom.data.split import fingerprint, held_out_share
from seqloom.errors import SeqloomError
from seqloom.types import Example

TEST_SHARE, TEST_MAX = 0.1, 1000
VALID_SHARE, VALID_MAX = 0.05, 500
PARTS = ("train", "valid", "test")


def split(examples: Callable[[], Iterable[Example]], total: int, file_of: Callable[[str], Path]) -> PartSizes:
    """Write every pair into the file of its part, and return the number of pairs in each.

    A hash of the source decides, so the split is the same for the same pairs, and pairs with equal sources are
    in the same part. The test part does not depend on the size of the validation part.
    """
    test = held_out_share(total, TEST_SHARE, TEST_MAX)
    valid = test + held_out_share(total, VALID_SHARE, VALID_MAX)
    counts = dict.fromkeys(PARTS, 0)
    with ExitStack() as stack:
        files = {part: stack.enter_context(open(file_of(part), "w", encoding="utf-8")) for part in PARTS}
        for example in examples():
            place = fingerprint(example.source) / 2**64
            part = "test" if place < test else "valid" if place < valid else "train"
            pair = {"source": example.source, "target": example.target}
            files[part].write(json.dumps(pair, ensure_ascii=False) + "\n")
            counts[part] += 1
    if empty := [part for part, count in counts.items() if not count]:
        raise SeqloomError(
            f"{total:,} pairs are too few for a comparison: the {empty[-1]} part would be empty.",
            f"{TEST_SHARE:.0%} of the pairs are for testing and {VALID_SHARE:.0%} for validation",
        )
    return PartSizes(**counts)
