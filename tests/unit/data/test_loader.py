"""Batches of each process in a group; together they equal the batch of a single process."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.batching import Position
from seqloom.data.loader import collator, feeder, local_collator
from seqloom.data.store import Tokens
from seqloom.distributed.process_group import ProcessGroup
from seqloom.run.config import compose
from seqloom.types import EOS, PAD, Batch

TARGETS = [[4, 5, 6, 7, 8, 9], [5], [6, 7], [8, 4, 9], [9, 9]]
MASKED = {"data.noise.kind": "mask", "data.format": "text", "model.name": "mlm"}


def _tokens() -> Tokens:
    rows = {"source": [target[::-1] for target in TARGETS], "target": TARGETS}
    ids = {side: np.array([token for row in of for token in row], "<u2") for side, of in rows.items()}
    offsets = {side: np.cumsum([0, *map(len, of)]) for side, of in rows.items()}
    return Tokens(ids, offsets, features=0)


@dataclass
class _Symbols:
    size: int = 12

    def symbol(self, name: str) -> int:
        return 11


def _shares(size: int, rows: list[int], **options: Any) -> list[tuple[Batch, int]]:
    config = compose(values=options)
    tokenizers: Any = SimpleNamespace(source=_Symbols())
    make_batch = collator(config.data.noise, tokenizers, 1, in_place=config.model.name == "mlm")
    masked = config.data.noise.kind != "none"
    return [
        local_collator(make_batch, ProcessGroup(rank, size), random=masked)(
            _tokens(), np.array(rows), Position(0, 3)
        )
        for rank in range(size)
    ]


def _lines(batch: Batch) -> list[tuple[list[int], list[int]]]:
    assert batch.target_out is not None
    return [
        (source[:length].tolist(), target.tolist()[: int(width)])
        for source, length, target, width in zip(
            batch.source, batch.source_lengths, batch.target_out, batch.target_lengths, strict=True
        )
        if bool((target != PAD).any())
    ]


@pytest.mark.parametrize("options", [{}, MASKED], ids=["pairs", "masked text"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_shares_make_up_the_batch_and_have_its_token_count(size: int, options: dict[str, Any]) -> None:
    rows = [4, 0, 3, 1, 2]
    [(whole, tokens)] = _shares(1, rows, **options)
    shares = _shares(size, rows, **options)
    assert {of for _, of in shares} == {tokens} == {whole.target_tokens}
    assert sum(batch.target_tokens for batch, _ in shares) == tokens
    assert sorted(line for batch, _ in shares for line in _lines(batch)) == sorted(_lines(whole))


def test_a_share_is_as_wide_as_its_longest_row() -> None:
    [(first, _), (second, _)] = _shares(2, [0, 1, 3, 2])
    assert (first.source.shape, second.source.shape) == ((2, 7), (2, 3))
    assert second.source.tolist() == [[5, EOS, PAD], [7, 6, EOS]]
    assert torch.equal(second.index, torch.tensor([1, 2]))


def test_a_process_without_rows_gets_one_without_loss() -> None:
    idle, tokens = _shares(2, [1])[1]
    assert (len(idle.source), idle.target_tokens, tokens) == (1, 0, 2)
    assert idle.target_out is not None and not idle.target_out.any()


def test_feeds_have_their_position() -> None:
    class Two:
        per_epoch = 2

        def collated(self, epoch: int, skip: int, collate: Any) -> Any:
            for number in range(skip + 1, 3):
                yield Position(epoch, number), collate(_tokens(), np.array([number]), Position(epoch, number))

    config = compose()
    make_batch = collator(config.data.noise, None, 1, in_place=False)  # type: ignore[arg-type]
    [last] = feeder(Two(), local_collator(make_batch, ProcessGroup(), random=False))(5, 1)
    assert (last.epoch, last.batch, last.target_tokens) == (5, 2, 3)
    assert last.data.source.tolist() == [[7, 6, EOS]]
