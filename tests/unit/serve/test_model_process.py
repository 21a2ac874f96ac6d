"""A model in its own process: outputs, cancellation, death and restart."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom import SeqloomError
from seqloom.serve.jobs import DecodingTask, Item, ModelSpec, Output, PartialOutput, Unavailable
from seqloom.serve.model_process import ModelProcess
from seqloom.types import Hypothesis, Request

FIXTURES = Path(__file__).parents[2] / "golden" / "fixtures"
LINES = ["the dog loves the house .", "a cat sees the dog .", "the house ."]


def with_process(folder: str, test: Callable[[ModelProcess], Coroutine[Any, Any, None]], **spec: Any) -> None:
    async def run() -> None:
        process = ModelProcess(ModelSpec("model", (str(FIXTURES / folder),), threads=1, **spec))
        await process.start()
        try:
            await test(process)
        finally:
            await process.stop()

    asyncio.run(run())


def test_outputs_equal_those_of_the_translator_with_every_option() -> None:
    async def test(process: ModelProcess) -> None:
        assert process.info.engine == "ctranslate2" and "alignment" in process.info.capabilities
        torch = seqloom.load(FIXTURES / "transformer")
        items = [Item(line, 6) for line in LINES]
        plain = (await process.run(DecodingTask(), items)).outputs
        assert [one.engine for one in plain] == ["ctranslate2"] * 3
        assert [one.hypotheses[0].text for one in plain] == [one[0].text for one in torch.translate(LINES)]
        aligned = (await process.run(DecodingTask(alignment=True, nbest=2), items)).outputs
        expected = torch.translate(LINES, nbest=2, alignment=True)
        assert aligned == [Output(tuple(many), "torch") for many in expected]
        (prefixed,) = (await process.run(DecodingTask(), [Item(LINES[0], 6, prefix="le")])).outputs
        assert prefixed.hypotheses[0].text == torch.translate(Request(LINES[0], prefix="le"))[0].text
        scores = await process.run(
            DecodingTask(kind="score"), [Item(LINES[0], 6, target=plain[0].hypotheses[0].text)]
        )
        assert scores.outputs[0].hypotheses[0].log_prob == pytest.approx(
            plain[0].hypotheses[0].log_prob, abs=1e-4
        )

    with_process("transformer", test)


def test_one_faulty_item_does_not_fail_the_others() -> None:
    async def test(process: ModelProcess) -> None:
        items = [Item(LINES[0], 6), Item(LINES[1], 6, prefix="☃"), Item(LINES[2], 6)]
        good, faulty, last = (await process.run(DecodingTask(), items)).outputs
        assert good.hypotheses and last.hypotheses and not good.error
        assert "vocabulary" in faulty.error and not faulty.is_internal

    with_process("transformer", test)


def test_a_search_reports_its_steps_and_stops_when_it_is_cancelled() -> None:
    async def test(process: ModelProcess) -> None:
        seen: list[PartialOutput] = []
        task = DecodingTask(beam=1, stream=True)
        (output,) = (await process.run(task, [Item(LINES[0], 6)], seen.append)).outputs
        assert [len(one.tokens) for one in seen] == list(range(1, len(seen) + 1)) and len(seen) > 2
        assert output.hypotheses[0].text.startswith(seen[-1].text) and not seen[-1].provisional

        def stop(partial: PartialOutput) -> None:
            process.cancel()

        errors: list[str] = []
        while "cancelled" not in errors and len(errors) < 20:  # on a busy machine a search may end first
            errors.append((await process.run(task, [Item(LINES[0] * 30, 180)], stop)).outputs[0].error)
        assert errors[-1] == "cancelled"

    with_process("transformer", test, engine="torch")


def test_a_killed_worker_refuses_its_batch_and_restarts() -> None:
    async def test(process: ModelProcess) -> None:
        restarts: list[int] = []
        process._on_restart = lambda: restarts.append(1)
        running = asyncio.create_task(process.run(DecodingTask(alignment=True), [Item(LINES[0] * 40, 200)]))
        await asyncio.sleep(0)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="restarts"):
            await running
        async with asyncio.timeout(60):  # about 3 seconds on an idle machine
            while not process.is_ready:
                await asyncio.sleep(0.05)
        assert restarts == [1]
        assert (await process.run(DecodingTask(), [Item(LINES[0], 6)])).outputs[0].hypotheses

    with_process("transformer", test)


def test_a_language_model_continues_a_prompt() -> None:
    async def test(process: ModelProcess) -> None:
        assert process.info.kind == "generate"
        result = await process.run(DecodingTask(kind="generate", beam=1), [Item("le chien", 2)])
        assert result.outputs[0].hypotheses[0].text.startswith("le chien")

    with_process("lm", test)


@pytest.mark.parametrize(
    ("folder", "message"), [("mlm", "fills gaps"), ("hmm-classifier", "feature files"), ("missing", "no run")]
)
def test_a_model_that_cannot_be_served_is_an_error(folder: str, message: str) -> None:
    async def run() -> None:
        with pytest.raises(SeqloomError, match=message):
            await ModelProcess(ModelSpec("model", (str(FIXTURES / folder),))).start()

    asyncio.run(run())


def test_an_output_survives_its_form_in_json() -> None:
    full = Hypothesis("a b", -1.5, -3.0, ("a", "b"), (-1.0, -2.0), ("x",), ((0.5,), (1.0,)), False, ("split",))
    output = Output((full, Hypothesis("", 0.0)), "torch")
    assert Output.from_json(output.as_json()) == output
    assert Output.from_json(Output(error="wrong").as_json()) == Output(error="wrong")
