"""The rows of each process, and a group of one."""

from __future__ import annotations

import pytest
import torch

from seqloom.data.batching import collate_ids
from seqloom.distributed.process_group import ProcessGroup
from seqloom.types import PAD


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_the_shards_of_a_batch_together_are_the_batch(rows: int) -> None:
    targets = [list(range(4, 5 + i)) for i in range(rows)]
    batch = collate_ids([[4]] * rows, targets, range(rows))
    shards = [ProcessGroup(rank, 2).shard(rows, batch.rows) for rank in (0, 1)]
    assert sum(shard.target_tokens for shard in shards) == batch.target_tokens
    assert all(len(shard.source) >= 1 for shard in shards)
    found = sorted(
        tuple(row[row != PAD].tolist()) for shard in shards for row in shard.target_out if (row != PAD).any()
    )
    assert found == sorted((*target, 2) for target in targets)


def test_a_group_of_one_returns_its_own_values() -> None:
    batch, group = collate_ids([[4], [5]], [[4], [5]], [0, 1]), ProcessGroup()
    assert group.is_main
    assert group.shard(2, batch.rows).source.tolist() == batch.source.tolist()
    assert group.all_reduce_max(1.0, 0.0) == [1.0, 0.0]
    assert group.all_reduce_sum(torch.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert group.broadcast("word") == "word"
    assert group.gather("word") == ["word"]
    assert [value.tolist() for value in group.all_gather(torch.tensor([3]))] == [[3]]
    group.barrier()
