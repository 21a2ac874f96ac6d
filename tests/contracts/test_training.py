"""Every architecture can be trained until it overfits a few pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.options import BeamOptions
from seqloom.types import Batch
from support.overfitting import overfit

# Two pairs have a common beginning, two sources are permutations of each other, and lengths differ.
SOURCES = [[4, 5, 6], [6, 5, 4], [7], [7, 8], [9, 9, 9, 9], [10, 4], [11, 12, 13, 14, 15], [16]]
TARGETS = [[8, 9], [9, 8, 8], [10, 11, 12, 13], [10, 11, 4], [5], [6, 6, 6], [17, 16], []]


def _pairs(case: Any, chosen: Sequence[int]) -> Batch:
    """Return a batch of the given pairs, each with a tree over its source."""
    sources = [SOURCES[i] for i in chosen]
    targets = case.targets([TARGETS[i] for i in chosen], sources)
    heads = [[0] + [1] * (len(source) - 1) for source in sources]
    return collate_ids(case.sources(sources), targets, range(len(chosen)), heads)


def _reads_the_order(case: Any, model: torch.nn.Module) -> bool:
    """Return whether the model distinguishes two sources that are permutations of each other."""
    first, second = (_pairs(case, [i]) for i in (0, 1))
    return not torch.allclose(model(first), model(replace(first, source=second.source)), atol=1e-5)


def test_it_overfits_eight_pairs(default_case: Any) -> None:
    """Seven, if the model is allowed to treat the first two as equal and does so."""
    model = default_case.build(**default_case.known(dropout=0.0)).float().train()
    tells_apart = not default_case.may_ignore_order or _reads_the_order(default_case, model)
    chosen = [i for i in range(8) if i != 1 or tells_apart]
    batch = _pairs(default_case, chosen)
    overfit(model, batch)
    plan = BeamOptions(3, stop="ahead")  # with `count`, three short hypotheses end the search
    found = beam_search(model.eval(), batch, plan, max_lengths=[9] * len(chosen))
    expected = default_case.targets([TARGETS[i] for i in chosen], [SOURCES[i] for i in chosen])
    assert [hypotheses[0].tokens for hypotheses in found] == expected
