"""Tests of packed sequences: every frame once, ordered by time, and unpacking."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.packed import Packed, pack


def packed(rows: list[Tensor], max_frames: int = 1000, width: int | None = None) -> list[Packed]:
    return pack(rows, dtype=torch.float64, device=torch.device("cpu"), max_frames=max_frames, width=width)


ROWS = [torch.tensor([1, 2]), torch.tensor([3]), torch.tensor([4, 5, 6]), torch.tensor([7, 8])]


def test_frames_are_ordered_by_time_and_length() -> None:
    (group,) = packed(ROWS)
    assert group.frames.tolist() == [4, 1, 7, 3, 5, 2, 8, 6]
    assert group.sizes == (4, 3, 1)
    assert group.order.tolist() == [2, 0, 3, 1]
    assert group.lengths.tolist() == [3, 2, 2, 1]
    assert group.frames[group.last].tolist() == [6, 2, 8, 3]
    assert [part.tolist() for part in group.by_time(group.frames)] == [[4, 1, 7, 3], [5, 2, 8], [6]]


def test_previous_frames() -> None:
    (group,) = packed(ROWS)
    assert group.frames[group.previous].tolist() == [4, 1, 7, 5]


def test_unpack_restores_the_rows() -> None:
    for max_frames in (1, 4, 5, 1000):
        groups = packed(ROWS, max_frames)
        found = {
            i: row
            for group in groups
            for i, row in zip(group.order.tolist(), group.unpack(group.frames), strict=True)
        }
        assert [found[i].tolist() for i in range(len(ROWS))] == [row.tolist() for row in ROWS]
        assert all(len(group.frames) <= max(max_frames, 3) for group in groups)


def test_features_keep_their_width() -> None:
    rows = [torch.arange(6.0).view(2, 3), torch.ones(1, 3)]
    (group,) = packed(rows, width=3)
    assert group.frames.shape == (3, 3) and group.frames.dtype == torch.float64
    assert torch.equal(group.unpack(group.frames)[0], rows[0].double())


@pytest.mark.parametrize(
    ("row", "width", "message"),
    [
        (torch.empty(0), None, "Sequence 2 has no frames"),
        (torch.ones(2, 3), None, "frames of 3 numbers, but the model emits symbols"),
        (torch.ones(2, 4), 3, "frames of 4 numbers, but the model emits 3 features"),
        (torch.ones(2), 3, "frames of one symbol, but the model emits 3 features"),
        (torch.tensor([[1.0, torch.nan, 0.0]]), 3, "Sequence 2 has values that are not finite"),
    ],
)
def test_user_errors(row: Tensor, width: int | None, message: str) -> None:
    good = torch.ones(1, width) if width else torch.ones(1)
    with pytest.raises(SeqloomError, match=message) as error:
        packed([good, row], width=width)
    assert error.value.hint
