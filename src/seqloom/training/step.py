"""Out-of-memory handling: a batch is split by rows, and the gradients of its parts add up to its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.types import Batch

# Error messages of torch when the host is out of memory; there is no exception class for it.
_HOST_MESSAGES = ("can't allocate memory", "not enough memory", "Cannot allocate memory")


class Attempt:
    """A context that records running out of memory as a failure instead of raising."""

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

    A failed attempt may have added to the gradients and drawn random numbers: `forget` clears the gradients,
    and the random state is restored, so the result depends only on the number of parts.
    """
    random, parts = _RandomState(), 1
    while True:
        attempt = Attempt(parts)
        yield attempt
        if not attempt.failed:
            return
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # cached blocks of other sizes may be merged into one that is large enough
        forget()
        random.restore()
        if parts >= most:
            return
        parts = min(2 * parts, most)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a device or the host ran out of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in _HOST_MESSAGES)


class _RandomState:
    """A snapshot of the random generators."""

    def __init__(self) -> None:
        self.host = torch.get_rng_state()
        self.device = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    def restore(self) -> None:
        torch.set_rng_state(self.host)
        if self.device is not None:
            torch.cuda.set_rng_state(self.device)


def split(batch: Batch, parts: int) -> Iterator[Batch]:
    """Yield the batch in `parts` parts of its rows, at least one row each."""
    if parts == 1:
        yield batch
        return
    rows = len(batch.source)
    size = -(-rows // parts)
    for first in range(0, rows, size):
        yield batch.rows(slice(first, first + size))


def too_large(batches: Sequence[Batch], step: int, budget: int, group: ProcessGroup) -> SeqloomError:
    """Return the error if not even single rows fit; a group of several processes does not split batches."""
    share = "a single line" if group.size == 1 else f"the part of process {group.rank}"
    width = max(batch.source.shape[1] for batch in batches)
    return SeqloomError(
        f"Not enough memory for {share} of the batch at step {step:,}, {width:,} source tokens wide.",
        f"lower data.max_length or train.batch_tokens (now {budget:,}), or make the model smaller (model.*); "
        "saved checkpoints are intact",
    )
