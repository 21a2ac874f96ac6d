"""Measured cost of a model: FLOPs, time and activation memory."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from seqloom.inspect.cost import example_batch, must_fit
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import BLUE, Style
from seqloom.nn.cells import RecurrentLayer
from seqloom.training.loss import cross_entropy
from seqloom.types import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMED_TOKENS = 1024  # per timed batch: one short sentence would measure the overhead of calls
MIN_SECONDS, MIN_REPEATS = 0.5, 3  # of a measurement

Shape = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Measurement(Inspection):
    """Cost of one training step per target token, for sentences of a fixed length."""

    forward: float  # FLOPs
    backward: float
    kept: float  # bytes kept for the backward pass
    forward_seconds: float
    training_seconds: float  # forward and backward
    sentences: int  # in the timed batch
    threads: int

    @property
    def forward_rate(self) -> float:
        """FLOPs per second of a forward pass."""
        return self.forward / self.forward_seconds

    @property
    def training_rate(self) -> float:
        """FLOPs per second, forward and backward."""
        return (self.forward + self.backward) / self.training_seconds

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: FLOPs and bytes per token of one side, FLOPs per second."""
        return {
            "forward_per_token": self.forward,
            "backward_per_token": self.backward,
            "kept_per_token": self.kept,
            "forward_seconds_per_token": self.forward_seconds,
            "training_seconds_per_token": self.training_seconds,
            "forward_rate": self.forward_rate,
            "training_rate": self.training_rate,
            "sentences": self.sentences,
            "threads": self.threads,
        }

    def _title(self) -> str:
        return f"Measured cost per token, batch of {self.sentences} sentences, {self.threads} threads"

    def _size(self) -> tuple[float, float]:
        return 7.5, 3.0

    def _draw(self, figure: Figure, style: Style) -> None:
        backward = self.training_seconds - self.forward_seconds
        left, right = figure.subplots(1, 2)
        left.bar(["forward", "backward"], [self.forward / 1e6, self.backward / 1e6], color=BLUE)
        left.set_ylabel("MFLOPs per token")
        right.bar(["forward", "backward"], [self.forward_seconds * 1e6, backward * 1e6], color=BLUE)
        right.set_ylabel("µs per token")
        for axes in (left, right):
            axes.set_xlabel("pass")


def measure(model: nn.Module, length: int) -> Measurement:
    """Measure FLOPs, time and memory of training on sentences with `length` tokens on each side."""
    batch, sentences = example_batch(length), max(1, TIMED_TOKENS // length)
    with must_fit(length):
        forward, backward = count_flops(model, batch)
        kept = kept_bytes(model, batch)
        seconds = _step_seconds(model, example_batch(length, sentences))
    return Measurement(
        forward=forward / length,
        backward=backward / length,
        kept=kept / length,
        forward_seconds=seconds[0] / (sentences * length),
        training_seconds=seconds[1] / (sentences * length),
        sentences=sentences,
        threads=torch.get_num_threads(),
    )


def count_flops(model: nn.Module, batch: Batch) -> tuple[int, int]:
    """Return the FLOPs of the matrix products computed by a forward and a backward pass.

    The counter does not support the fused LSTM kernel, so recurrent layers are computed step by step.
    """
    probe: Any = deepcopy(model)
    for module in probe.modules():
        if isinstance(module, RecurrentLayer):
            module.cell = replace(module.cell, kernel="steps")
    loss, forward = with_flops(lambda: probe(batch).sum())
    _, backward = with_flops(loss.backward)
    return forward, backward


def with_flops(work: Callable[[], T]) -> tuple[T, int]:
    """Return the result of a computation and the FLOPs of its matrix products, as counted by torch."""
    with FlopCounterMode(display=False, custom_mapping=_FUSED_ATTENTION) as counter:
        result = work()
    return result, counter.get_total_flops()


def _fused_forward(q: Shape, k: Shape, v: Shape, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    """Return the FLOPs of scores and weighted sum; torch counts this kernel on accelerators only."""
    batch, heads, queries, width = q
    return 2 * batch * heads * queries * k[2] * (width + v[3])


def _fused_backward(grad: Shape, q: Shape, k: Shape, v: Shape, *rest: Any, **options: Any) -> int:
    """Return twice the forward FLOPs, as for any product; scores recomputed by the kernel are not counted."""
    return 2 * _fused_forward(q, k, v)


_ATEN = torch.ops.aten
_FUSED_ATTENTION: dict[Any, Any] = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _fused_forward,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _fused_backward,
}


def kept_bytes(model: nn.Module, batch: Batch) -> int:
    """Return the bytes of all tensors created by a forward pass that are still alive after it.

    These are kept for the backward pass. The loss does not keep its logits, so the pass ends at `hidden`.
    """
    trained: Any = model
    live = _LiveBytes([*model.parameters(), *model.buffers()])
    with live:
        hidden = trained.hidden(batch)
    kept = live.bytes
    del hidden
    return kept


class _LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counter of the bytes of all live storages that were created by operations."""

    def __init__(self, existing: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in existing}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._track(tensor.untyped_storage())
        return result

    def _track(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata not in self._known:
            self._known.add(storage._cdata)
            self.bytes += storage.nbytes()
            weakref.finalize(storage, self._free, storage._cdata, storage.nbytes())

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.bytes -= size


def _step_seconds(model: Any, batch: Batch) -> tuple[float, float]:
    """Return the seconds of a forward pass, and of a training step without the optimiser."""

    assert batch.target_out is not None
    targets = batch.target_out

    def forward() -> torch.Tensor:
        return cross_entropy(model.hidden(batch), model.output, targets).total

    def train() -> None:
        forward().backward()  # type: ignore[no-untyped-call]
        model.zero_grad(set_to_none=False)

    with torch.no_grad():
        forward_seconds = _seconds(forward)
    return forward_seconds, _seconds(train)


def _seconds(work: Callable[[], object]) -> float:
    """Return the time of the fastest of several runs, after a warm-up: other load only slows them down."""
    work()
    times: list[float] = []
    while sum(times) < MIN_SECONDS or len(times) < MIN_REPEATS:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
