"""Scheduler: requests of many clients become batches for one model.

A batch is formed whenever the model is free. Clients take turns: the oldest item of the client whose turn it is
leads the batch; the oldest item of every other client joins it if its task is the same; the rest is filled, one
item per client at a time, with items whose length is nearest to that of the first. So a client with thousands
of items delays the single item of another one by the batch that is running, not by its queue.

The padded size of a batch of n items is n · (L + 1) · rows, as in `decode.pipeline`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from seqloom.serve.jobs import BatchResult, DecodingTask, Item, Output, PartialOutput, Unavailable

OnPartial = Callable[[PartialOutput], None]

_SMOOTHING = 0.2  # weight of the newest batch in the measured speed
_TASKS_MEASURED = 64  # speeds are kept for this number of recent tasks
_AT_ONCE = 8  # outputs per turn of the event loop
_LOOKED_AT = 512  # items per client that are compared when a batch is filled


class SchedulerLimits(NamedTuple):
    """Sizes of the queue and of a batch."""

    queue: int = 4096  # items that may wait
    batch_tokens: int = 16_384  # padded source tokens x hypotheses
    batch_items: int = 128


class BatchRunner(Protocol):
    """A model that decodes one batch at a time, such as a ModelProcess."""

    @property
    def default_beam(self) -> int:
        """Number of hypotheses of a task without a beam."""
        ...

    @property
    def seconds_per_token(self) -> float:
        """Speed measured before the first batch."""
        ...

    async def run(self, task: DecodingTask, items: Sequence[Item], on_partial: OnPartial | None) -> BatchResult:
        """Return the outputs in order; raise Unavailable if the model is lost."""
        ...

    def cancel(self) -> None:
        """Stop the running batch as soon as possible; its outputs are not used."""
        ...


class Observer(Protocol):
    """Receiver of measurements."""

    def batch(self, waits: Sequence[float], result: BatchResult) -> None:
        """Report a finished batch and the time that each of its items waited."""
        ...


class _Work(NamedTuple):
    """A task with its form for comparisons, which are frequent, and its number of hypotheses."""

    task: DecodingTask
    key: str
    rows: int


@dataclass(eq=False, slots=True)
class _Waiting:
    item: Item
    work: _Work
    client: str
    seconds: float  # predicted time
    done: asyncio.Future[Output]
    on_partial: OnPartial | None
    since: float = field(default_factory=time.monotonic)

    @property
    def cost(self) -> float:
        """Work in tokens x hypotheses; a target is about as long as its source."""
        return (self.item.tokens + 1) * self.work.rows


class _Queue:
    """Items of one client."""

    def __init__(self) -> None:
        self.items: deque[_Waiting] = deque()
        self.seconds = 0.0  # predicted time of all items

    def append(self, one: _Waiting) -> None:
        self.items.append(one)
        self.seconds += one.seconds

    def remove(self, removed: AbstractSet[_Waiting]) -> None:
        self.items = deque(one for one in self.items if one not in removed)
        self.seconds = sum(one.seconds for one in self.items)

    def take(self, taken: AbstractSet[_Waiting]) -> None:
        """Remove items that are among the oldest; the time does not depend on the length of the queue."""
        oldest = [self.items.popleft() for _ in range(min(_LOOKED_AT, len(self.items)))]
        self.items.extendleft(one for one in reversed(oldest) if one not in taken)
        self.seconds -= sum(one.seconds for one in oldest if one in taken)


class Scheduler:
    """Queue in front of one model. All methods run in one event loop."""

    def __init__(
        self, runner: BatchRunner, limits: SchedulerLimits | None = None, observer: Observer | None = None
    ) -> None:
        self.runner = runner
        self.limits = limits or SchedulerLimits()
        self._observer = observer
        self._queues: OrderedDict[str, _Queue] = OrderedDict()  # by client, in the order of their turns
        self._running: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._speeds: OrderedDict[str, float] = OrderedDict()  # seconds per unit of cost, by task
        self._loop: asyncio.Task[None] | None = None

    @property
    def depth(self) -> int:
        """Number of items that wait."""
        return sum(len(queue.items) for queue in self._queues.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not self._queues and not self._running

    def start(self) -> None:
        """Start to form batches."""
        self._loop = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Stop; everything that waits is refused."""
        pending = [*self._running, *(one for queue in self._queues.values() for one in queue.items)]
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        for one in pending:
            if not one.done.done():
                one.done.set_exception(Unavailable("draining", "The server stops."))
        self._queues.clear()

    async def use(self, runner: BatchRunner) -> None:
        """Decode all further batches with another runner; return when the old one has ended its batch."""
        self.runner, running = runner, self._running
        while running and self._running is running:
            await asyncio.sleep(0.01)

    async def run(
        self,
        items: Sequence[Item],
        task: DecodingTask,
        *,
        client: str,
        seconds: float = math.inf,
        on_partial: OnPartial | None = None,
        on_output: Callable[[int, Output], None] | None = None,
    ) -> list[Output]:
        """Return the outputs of the items, in order.

        Raise Unavailable at once if the queue is full or the outputs cannot be expected within `seconds`, and
        TimeoutError after that time. If the caller is cancelled, its items leave the queue. `on_output` gets
        the position and output of each item as soon as it is done.
        """
        if not items:
            return []
        work = _Work(task, task.model_dump_json(), task.rows(self.runner.default_beam))
        speed = self._speed(work.key)
        own = speed * sum((item.tokens + 1) * work.rows for item in items)
        self._admit(len(items), own, client, seconds)
        loop, queue = asyncio.get_running_loop(), self._queues.setdefault(client, _Queue())
        submitted: list[_Waiting] = []
        for position, item in enumerate(items):
            one = _Waiting(item, work, client, 0.0, loop.create_future(), on_partial)
            one.seconds = one.cost * speed
            if on_output is not None:
                one.done.add_done_callback(partial(_report, position, on_output))
            submitted.append(one)
            queue.append(one)
        self._arrived.set()
        try:
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                outputs = [await one.done for one in submitted]
                if on_output is not None:
                    await asyncio.sleep(0)  # the last outputs are reported before the result
                return outputs
        finally:
            self._abandon(client, submitted)

    def expected_seconds(self, own: float, client: str) -> float:
        """Return the predicted time until work of `own` seconds is done, if it arrives now.

        Clients take turns, so a client waits for its own work and for as much of each other client.
        """
        mine = self._queues.get(client)
        own += 0.0 if mine is None else mine.seconds
        others = (queue.seconds for queue in self._queues.values() if queue is not mine)
        return self._running_seconds() + own + sum(min(own, other) for other in others)

    def queue_seconds(self) -> float:
        """Return the predicted time until everything that waits or runs is done."""
        return self._running_seconds() + sum(queue.seconds for queue in self._queues.values())

    def _running_seconds(self) -> float:
        return sum(one.seconds for one in self._running)

    def _admit(self, count: int, own: float, client: str, seconds: float) -> None:
        """Raise Unavailable if the items do not fit into the queue or cannot be done in time."""
        if (depth := self.depth) + count > self.limits.queue:
            message = f"The queue is full: {depth:,} sentences wait, at most {self.limits.queue:,} may."
            raise Unavailable("queue_full", message, max(1.0, self.queue_seconds()))
        if (expected := self.expected_seconds(own, client)) > seconds:
            message = f"The request would take about {expected:.0f} s, more than its limit of {seconds:g} s."
            raise Unavailable("deadline", message, max(1.0, expected - seconds))

    def _abandon(self, client: str, submitted: Sequence[_Waiting]) -> None:
        """Remove those of a client's items that are not done, and stop a batch that nobody waits for."""
        # Cancelling a task also cancels the future that it awaits.
        lost = {one for one in submitted if not one.done.done() or one.done.cancelled()}
        for one in submitted:
            if one in lost:
                one.done.cancel()
            else:
                one.done.exception()  # mark it as retrieved: the caller saw the first error
        if lost:
            self._remove(client, lost)
            if self._running and all(one.done.cancelled() for one in self._running):
                self.runner.cancel()

    def _remove(self, client: str, removed: AbstractSet[_Waiting]) -> None:
        if (queue := self._queues.get(client)) is not None:
            queue.remove(removed)
            if not queue.items:
                del self._queues[client]

    async def _work(self) -> None:
        while True:
            while not self._queues:
                self._arrived.clear()
                await self._arrived.wait()
                await asyncio.sleep(0)  # requests that are in the socket already join the batch
            self._running = batch = self._next_batch()
            try:
                await self._run(batch)
            finally:
                self._running = []
                # Only now: whoever arrived meanwhile has the next turn.
                if (client := batch[0].client) in self._queues:
                    self._queues.move_to_end(client)

    async def _run(self, batch: list[_Waiting]) -> None:
        first, started = batch[0], time.monotonic()
        try:
            result = await self.runner.run(first.work.task, [one.item for one in batch], first.on_partial)
        except Unavailable as error:
            for one in batch:
                if not one.done.done():
                    one.done.set_exception(error)
            # The model restarts meanwhile. Yield, so that a runner that fails at once cannot block the loop.
            await asyncio.sleep(0)
            return
        if not all(one.done.cancelled() for one in batch):  # else the batch may have been stopped
            self._measure(batch, time.monotonic() - started)
        if self._observer is not None:
            self._observer.batch([started - one.since for one in batch], result)
        _finish(list(zip(batch, result.outputs, strict=True)))

    def _next_batch(self) -> list[_Waiting]:
        """Take the items of the next batch from the queues, which are not empty."""
        leader = next(iter(self._queues.values())).items[0]
        batch = [leader]
        if not leader.work.task.stream:
            rows, longest = leader.work.rows, leader.item.tokens
            for one in self._companions(leader):
                longest, size = max(longest, one.item.tokens), len(batch) + 1
                if size > self.limits.batch_items or size * (longest + 1) * rows > self.limits.batch_tokens:
                    break
                batch.append(one)
        taken = set(batch)
        for name in {one.client for one in batch}:
            (queue := self._queues[name]).take(taken)
            if not queue.items:
                del self._queues[name]
        return batch

    def _companions(self, leader: _Waiting) -> Iterator[_Waiting]:
        """Yield the items with the task of the leader: the oldest of each other client, then similar ones."""
        others: list[list[_Waiting]] = []
        for name, queue in self._queues.items():
            first = islice(queue.items, _LOOKED_AT)
            same = [one for one in first if one.work.key == leader.work.key and one is not leader]
            if same and name != leader.client:
                yield same.pop(0)
            same.sort(key=lambda one: abs(one.item.tokens - leader.item.tokens), reverse=True)
            others.append(same)
        while others := [same for same in others if same]:
            for same in others:
                yield same.pop()

    def _measure(self, batch: Sequence[_Waiting], seconds: float) -> None:
        speed, key = seconds / sum(one.cost for one in batch), batch[0].work.key
        old = self._speeds.pop(key, None)
        self._speeds[key] = speed if old is None else old + _SMOOTHING * (speed - old)
        if len(self._speeds) > _TASKS_MEASURED:
            self._speeds.popitem(last=False)

    def _speed(self, key: str) -> float:
        if (own := self._speeds.get(key)) is not None:
            return own
        return next(reversed(self._speeds.values()), self.runner.seconds_per_token)


def _report(position: int, on_output: Callable[[int, Output], None], done: asyncio.Future[Output]) -> None:
    if not done.cancelled() and done.exception() is None:
        on_output(position, done.result())


def _finish(outputs: Sequence[tuple[_Waiting, Output]]) -> None:
    """Set the outputs, a few per turn of the event loop, which accepts requests in between."""
    for one, output in outputs[:_AT_ONCE]:
        if not one.done.done():
            one.done.set_result(output)
    if rest := outputs[_AT_ONCE:]:
        asyncio.get_running_loop().call_soon(_finish, rest)
