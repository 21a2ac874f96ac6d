"""Batches that do not fit into memory: split by rows, for the parts' gradients add up to that of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.types import Batch

# What torch says when the host has no memory left; it has no class of its own for that.
_HOST = ("can't allocate memory", "not enough memory", "Cannot allocate memory")


class Attempt:
    """A context in which running out of memory is not an error: it makes the attempt fail."""

    def __init__(self, parts: int) -> None:
        self.parts, self.failed = parts, False

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.failed = isinstance(error, Exception) and is_out_of_memory(error)
        return self.failed


def retry_on_oom(most: int, forget: Callable[[], None]) -> Iterator[Attempt]:
    """Yield attempts with 1, 2, 4, ... `most` parts until one fits into memory; the last may have failed.

        for attempt in retry_on_oom(most=8, forget=model.zero_grad):
            with attempt:
                loss = forward_and_backward(split(batch, attempt.parts))

    An attempt that failed half way has added to the gradients and drawn random numbers: `forget` clears the
    former, and the latter are drawn again, so the result depends on the number of parts alone.
    """
    random, parts = _Random(), 1
    while True:
        attempt = Attempt(parts)
        yield attempt
        if not attempt.failed:
            return
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # free blocks of other sizes can make one that is large enough
        forget()
        random.restore()
        if parts >= most:
            return
        parts = min(2 * parts, most)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a device or the host had no memory left."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in _HOST)


class _Random:
    """The random generators as they are now."""

    def __init__(self) -> None:
        self.host = torch.get_rng_state()
        self.device = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    def restore(self) -> None:
        torch.set_rng_state(self.host)
        if self.device is not None:
            torch.cuda.set_rng_state(self.device)


def split(batch: Batch, parts: int) -> Iterator[Batch]:
    """The rows of a batch in so many parts, or one by one if there are fewer."""
    if parts == 1:
        yield batch
        return
    rows = len(batch.source)
    size = -(-rows // parts)
    for first in range(0, rows, size):
        yield batch.rows(slice(first, first + size))


def too_large(batches: Sequence[Batch], step: int, budget: int, group: ProcessGroup) -> SeqloomError:
    """Return the error when not even single rows fit; several processes do not try to split a batch."""
    what = "a single line" if group.size == 1 else f"the part of process {group.rank}"
    width = max(batch.source.shape[1] for batch in batches)
    return SeqloomError(
        f"Memory is not enough for {what} of the batch at step {step:,}, {width:,} source tokens wide.",
        f"lower data.max_length or train.batch_tokens (it is {budget:,}), or make the model smaller (model.*); "
        "the last checkpoint is good",
    )
