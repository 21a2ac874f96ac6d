"""Several models as one: the mean of their distributions, in either space."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.decode.ensemble import Ensemble
from seqloom.decode.plan import Plan
from seqloom.decode.search import beam_search
from seqloom.registry import architecture
from seqloom.types import BOS, Vocabularies, select_rows

NAMES = ("transformer", "lstm-bilinear", "lstm-last")
SOURCES = [[4, 5, 6], [7, 8]]


def member(name: str, seed: int = 1, source: int = 12) -> Any:
    torch.manual_seed(seed)
    entry = architecture(name)
    values = {**entry.overrides, "name": name, "size": "tiny", "width": 16}
    vocabularies = Vocabularies(source, 12, source == 12)
    return entry.build(entry.settings.model_validate(values), vocabularies).double().eval()


def first_steps(model: Any, tokens: list[int]) -> list[torch.Tensor]:
    memory, state = model.start(collate_ids(SOURCES, None, range(2)))
    found = []
    for token in tokens:
        step = model.step(memory, state, torch.full((2,), token))
        state = step.state
        found.append(step.log_probs.clone())
    return found


@pytest.mark.parametrize("space", ["probability", "log"])
def test_the_distribution_is_the_weighted_mean(space: Any) -> None:
    members = [member(name) for name in NAMES]
    weights = [1.0, 2.0, 5.0]
    ensemble = Ensemble(members, weights=weights, space=space)
    each = [first_steps(one, [BOS, 5, 9]) for one in members]
    for t, together in enumerate(first_steps(ensemble, [BOS, 5, 9])):
        if space == "probability":
            expected = sum(w / 8 * one[t].exp() for w, one in zip(weights, each, strict=True))
        else:
            product = sum(w / 8 * one[t] for w, one in zip(weights, each, strict=True))
            expected = product.exp() / product.exp().sum(-1, keepdim=True)  # type: ignore[union-attr]
        assert_close(together.exp(), expected)


def test_a_model_with_itself_is_itself() -> None:
    alone = member("transformer")
    batch = collate_ids(SOURCES, None, range(2))
    both = (alone, Ensemble([alone, alone]))
    one, two = (beam_search(model, batch, Plan(3), max_lengths=[6, 6]) for model in both)
    assert [[f.tokens for f in found] for found in one] == [[f.tokens for f in found] for found in two]
    assert [f.score for f in one[0]] == pytest.approx([f.score for f in two[0]])


def test_rows_can_be_selected_across_members() -> None:
    ensemble = Ensemble([member(name) for name in NAMES])
    memory, state = ensemble.start(collate_ids(SOURCES, None, range(2)))
    rows = torch.tensor([0, 0, 1, 1])
    step = ensemble.step(memory, select_rows(state, rows), torch.tensor([1, 1, 1, 1]))
    assert_close(step.log_probs[0], step.log_probs[1])
    assert step.attention is not None
    assert_close(step.attention.sum(-1), torch.ones(4, dtype=torch.float64))


def test_members_may_read_the_source_by_tokenizers_of_their_own() -> None:
    first, second = member("transformer"), member("lstm-bilinear", source=40)
    other = collate_ids([[30, 31, 32, 33, 34], [35]], None, range(2))
    ensemble = Ensemble([first, second], others=[other])
    together = first_steps(ensemble, [BOS])[0]
    memory, state = second.start(other)
    theirs = second.step(memory, state, torch.full((2,), BOS)).log_probs
    assert_close(together.exp(), (first_steps(first, [BOS])[0].exp() + theirs.exp()) / 2)
