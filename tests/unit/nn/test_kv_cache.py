"""The key-value cache always equals a concatenation at every step."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.nn.kv_cache import _GROWTH, KVCache, append

STEPS = st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(["append", "branch", "select"])), max_size=60)


@given(STEPS)
def test_any_order_of_appending_branching_and_selecting(steps: list[tuple[int, str]]) -> None:
    """Every cache is kept together with keys and values made by `cat`, and compared at the end."""
    kept: list[tuple[KVCache | None, torch.Tensor, torch.Tensor]] = [
        (None, torch.empty(2, 3, 0, 4), torch.empty(2, 3, 0, 5))
    ]
    for seed, how in steps:
        random = torch.Generator().manual_seed(seed)
        past, keys, values = kept[seed % len(kept)] if how == "branch" else kept[-1]
        if how == "select" and past is not None:
            rows = torch.randint(2, (2,), generator=random)
            kept.append((past.index_select(0, rows), keys[rows], values[rows]))
            continue
        key, value = (torch.randn(2, 3, 1, width, generator=random) for width in (4, 5))
        longer = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
        kept.append((append(past, key, value), *longer))
    for past, keys, values in kept[1:]:
        assert past is not None
        assert torch.equal(past.keys, keys) and torch.equal(past.values, values)


def test_a_single_cache_is_not_copied_at_every_step() -> None:
    past, buffers = None, set()
    for _ in range(64):
        past = append(past, torch.ones(2, 3, 1, 4), torch.ones(2, 3, 1, 5))
        buffers.add(past.buffer.keys.data_ptr())
    assert len(buffers) <= 64 / _GROWTH
