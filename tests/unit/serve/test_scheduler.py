"""Batches, turns, admission, deadlines and cancellation, with a model that only waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from seqloom.serve.jobs import BatchResult, DecodingTask, Item, Output, Unavailable
from seqloom.serve.scheduler import Scheduler, SchedulerLimits
from seqloom.types import Hypothesis

PLAIN = DecodingTask(beam=1)


class Model:
    """Model that reverses its sources when a test opens the gate."""

    default_beam = 1
    seconds_per_token = 0.0

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.cancelled = 0
        self.failure: Exception | None = None

    async def run(self, task: DecodingTask, items: Sequence[Item], on_partial: object) -> BatchResult:
        self.batches.append([item.source for item in items])
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        outputs = [Output((Hypothesis(item.source[::-1], 0.0),)) for item in items]
        return BatchResult(outputs, 0.0)

    def cancel(self) -> None:
        self.cancelled += 1
        self.gate.set()


def serve(test: Callable[[Model, Scheduler], Coroutine[Any, Any, None]], **limits: int) -> None:
    """Run a test with a model and its scheduler."""

    async def run() -> None:
        model = Model()
        scheduler = Scheduler(model, SchedulerLimits(**limits))
        scheduler.start()
        await test(model, scheduler)
        await scheduler.stop()

    asyncio.run(run())


def items(*sources: str) -> list[Item]:
    return [Item(source, tokens=len(source)) for source in sources]


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


def test_outputs_have_the_order_of_the_items() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        found = await scheduler.run(items("ab", "abcdef", "abc"), PLAIN, client="a")
        assert [one.hypotheses[0].text for one in found] == ["ba", "fedcba", "cba"]
        assert scheduler.is_idle and scheduler.depth == 0

    serve(test)


def test_what_waits_while_a_batch_runs_is_one_batch() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.gate.clear()
        first = asyncio.create_task(scheduler.run(items("x"), PLAIN, client="a"))
        await wait_for(lambda: len(model.batches) == 1)
        others = [asyncio.create_task(scheduler.run(items(c), PLAIN, client=c)) for c in "bcd"]
        await wait_for(lambda: scheduler.depth == 3)
        model.gate.set()
        await asyncio.gather(first, *others)
        assert model.batches == [["x"], ["b", "c", "d"]]

    serve(test)


def test_requests_that_arrive_together_at_an_idle_model_are_one_batch() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        await asyncio.sleep(0)  # the scheduler waits

        async def later() -> None:
            for _ in range(2):  # its bytes are in the socket, but not yet read
                await asyncio.sleep(0)
            await scheduler.run(items("b"), PLAIN, client="b")

        await asyncio.gather(later(), scheduler.run(items("a"), PLAIN, client="a"))
        assert [sorted(batch) for batch in model.batches] == [["a", "b"]]

    serve(test)


def test_taking_a_batch_leaves_the_rest_of_a_long_queue_in_order() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        sources = [f"{number:04}" for number in range(2000)]
        found = await scheduler.run(items(*sources), PLAIN, client="a")
        assert [one.hypotheses[0].text[::-1] for one in found] == sources
        assert model.batches[0][0] == "0000" and sorted(s for batch in model.batches for s in batch) == sources
        assert scheduler.is_idle and scheduler.queue_seconds() == 0

    serve(test)


def test_only_equal_tasks_share_a_batch() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.gate.clear()
        blocking = asyncio.create_task(scheduler.run(items("x"), PLAIN, client="z"))
        await wait_for(lambda: bool(model.batches))
        tasks = [
            (DecodingTask(beam=1), "a"),
            (DecodingTask(beam=2), "b"),
            (DecodingTask(beam=1), "c"),
            (DecodingTask(beam=1, nbest=2), "d"),
        ]
        waiting = [asyncio.create_task(scheduler.run(items(c), task, client=c)) for task, c in tasks]
        await wait_for(lambda: scheduler.depth == 4)
        model.gate.set()
        await asyncio.gather(blocking, *waiting)
        assert model.batches[1:] == [["a", "c"], ["b"], ["d"]]

    serve(test)


def test_the_padded_size_and_the_number_of_items_limit_a_batch() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        await scheduler.run(items(*["ab"] * 10, *["abcde"] * 6), DecodingTask(beam=2), client="a")
        sizes = [len(batch) * (max(map(len, batch)) + 1) * 2 for batch in model.batches]
        assert max(sizes) <= 30 and max(map(len, model.batches)) <= 4
        assert sum(map(len, model.batches)) == 16

    serve(test, batch_tokens=30, batch_items=4)


def test_an_item_that_exceeds_the_budget_is_a_batch_by_itself() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        await scheduler.run(items("abcdefghijkl", "a"), PLAIN, client="a")
        assert model.batches == [["abcdefghijkl"], ["a"]]

    serve(test, batch_tokens=8)


def test_a_batch_is_filled_with_the_nearest_lengths() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        await scheduler.run(items("aaa", "a" * 9, "bb", "a" * 8, "cccc"), PLAIN, client="a")
        assert [sorted(map(len, batch)) for batch in model.batches] == [[2, 3, 4], [8, 9]]

    serve(test, batch_items=3)


@pytest.mark.parametrize("length", [1, 30])
def test_a_client_with_many_items_delays_others_by_one_batch(length: int) -> None:
    """Whatever the length of the others' items; without turns, they would wait for 250 batches."""

    async def test(model: Model, scheduler: Scheduler) -> None:
        model.gate.clear()
        many = asyncio.create_task(scheduler.run(items(*["mm"] * 1000), PLAIN, client="many"))
        await wait_for(lambda: bool(model.batches))
        single = [asyncio.create_task(scheduler.run(items(c * length), PLAIN, client=c)) for c in "abc"]
        await wait_for(lambda: scheduler.depth == 996 + 3)
        model.gate.set()
        await asyncio.gather(many, *single)
        assert {"a" * length, "b" * length, "c" * length} <= set(model.batches[1])

    serve(test, batch_items=4, batch_tokens=1000)


def test_clients_whose_tasks_differ_take_turns() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.gate.clear()
        waiting = [asyncio.create_task(scheduler.run(items(*"aaaa"), DecodingTask(beam=1), client="a"))]
        await wait_for(lambda: bool(model.batches))
        waiting.append(asyncio.create_task(scheduler.run(items(*"bbbb"), DecodingTask(beam=2), client="b")))
        await wait_for(lambda: scheduler.depth == 3 + 4)
        model.gate.set()
        await asyncio.gather(*waiting)
        assert [batch[0] for batch in model.batches] == list("abababab")

    serve(test, batch_items=1)


def test_a_full_queue_refuses_and_names_a_time() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        with pytest.raises(Unavailable, match="queue is full") as refused:
            await scheduler.run(items("a", "b", "c"), PLAIN, client="a")
        assert refused.value.reason == "queue_full" and refused.value.retry_after >= 1
        assert model.batches == [] and scheduler.is_idle

    serve(test, queue=2)


def test_a_request_that_cannot_meet_its_deadline_is_refused_at_once() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.seconds_per_token = 1.0
        with pytest.raises(Unavailable, match="about 22 s") as refused:
            await scheduler.run(items("a" * 10, "b" * 10), PLAIN, client="a", seconds=10)
        assert refused.value.reason == "deadline" and refused.value.retry_after == 12
        await scheduler.run(items("a" * 8), PLAIN, client="a", seconds=10)
        assert scheduler.expected_seconds(1.0, "a") == 1.0, "nothing waits"

    serve(test)


def test_the_predicted_time_of_a_client_does_not_include_the_queue_of_another_one() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.gate.clear()
        model.seconds_per_token = 1.0
        many = asyncio.create_task(scheduler.run(items(*"m" * 101), PLAIN, client="many"))
        await wait_for(lambda: bool(model.batches))
        running, own = 2.0, 4.0
        assert scheduler.expected_seconds(own, "other") == running + own + own
        assert scheduler.expected_seconds(own, "many") == running + own + 200
        assert scheduler.queue_seconds() == 202
        many.cancel()
        await asyncio.gather(many, return_exceptions=True)

    serve(test, batch_items=1)


def test_after_its_deadline_a_request_ends_and_frees_its_items() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.gate.clear()
        with pytest.raises(TimeoutError):
            await scheduler.run(items("a", "b"), PLAIN, client="a", seconds=0.02)
        assert scheduler.depth == 0 and model.cancelled == 1
        assert (await scheduler.run(items("xy"), PLAIN, client="a"))[0].hypotheses[0].text == "yx"

    serve(test, batch_items=1)


def test_a_cancelled_request_leaves_the_queue_and_stops_only_its_own_batch() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.gate.clear()
        running = asyncio.create_task(scheduler.run(items("a"), PLAIN, client="a"))
        await wait_for(lambda: bool(model.batches))
        waiting = asyncio.create_task(scheduler.run(items("b"), PLAIN, client="b"))
        await wait_for(lambda: scheduler.depth == 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert scheduler.depth == 0 and model.cancelled == 0, "the batch of the other client continues"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert model.cancelled == 1 and model.batches == [["a"]]

    serve(test)


def test_when_the_model_is_lost_its_batch_is_refused_and_the_next_one_runs() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.failure = Unavailable("worker", "The model restarts.")
        with pytest.raises(Unavailable, match="restarts"):
            await scheduler.run(items("a", "b"), PLAIN, client="a")
        model.failure = None
        assert len(await scheduler.run(items("a"), PLAIN, client="a")) == 1

    serve(test)


def test_outputs_are_reported_as_they_are_done() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        seen: list[int] = []
        await scheduler.run(
            items("a", "b", "c"), PLAIN, client="a", on_output=lambda position, output: seen.append(position)
        )
        await asyncio.sleep(0)
        assert seen == [0, 1, 2]

    serve(test, batch_items=1)


def test_stopping_refuses_what_waits() -> None:
    async def test(model: Model, scheduler: Scheduler) -> None:
        model.gate.clear()
        waiting = asyncio.create_task(scheduler.run(items("a", "b"), PLAIN, client="a"))
        await wait_for(lambda: bool(model.batches))
        await scheduler.stop()
        with pytest.raises(Unavailable, match="stops"):
            await waiting

    serve(test, batch_items=1)
