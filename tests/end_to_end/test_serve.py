"""`seqloom serve` as a process: outputs of the command line, a killed worker, a new checkpoint, SIGTERM."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.commands import run_command, run_process
from support.serving import FIXTURES, TRANSFORMER, ServeProcess, events, serve_process

WORDS = ["the", "a", "red", "old", "dog", "cat", "house", "tree", "sees", "likes", "hides", "zebra"]
PAIR = {"source": "en", "target": "de"}


def sentences(count: int) -> list[str]:
    """Return random sentences of known and unknown words."""
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 14))) + " ." for _ in range(count)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a run, with two checkpoints."""
    copy = tmp_path_factory.mktemp("served") / "run"
    shutil.copytree(TRANSFORMER, copy, symlinks=True)
    return copy


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[ServeProcess]:
    """A server with a translator that follows its run, and a language model."""
    with serve_process(f"en-de={run}", f"lm={FIXTURES / 'lm'}", "--threads", 1, "--follow") as found:
        found.logged("model is ready", 2)
        yield found


def expected(lines: list[str], folder: Path, tmp_path: Path) -> list[str]:
    """Return the outputs of the command line."""
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return run_command("translate", folder, file, "--engine", "torch").out.splitlines()


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_outputs_in_random_batches_are_those_of_the_command_line(
    server: ServeProcess, run: Path, tmp_path: Path, count: int
) -> None:
    lines = sentences(count)
    assert in_random_batches(server, lines) == expected(lines, run, tmp_path)


def in_random_batches(server: ServeProcess, lines: list[str]) -> list[str]:
    """Return the outputs of lines that eight clients send in requests of random size."""
    parts, draw, start = [], random.Random(2), 0
    while start < len(lines):
        parts.append(lines[start : start + draw.randint(1, 9)])
        start += len(parts[-1])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: server.post("/translate", {"q": part, **PAIR}), parts))
    assert [one.status for one in found] == [200] * len(parts)
    return [text for one in found for text in one.json["translatedText"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "engine"),
    [
        ("transformer", "torch"),
        ("transformer", "ctranslate2"),
        ("lstm", "torch"),
        ("phrase", "auto"),
        ("transformer,lstm", "torch"),
    ],
)
def test_outputs_of_every_exact_engine_are_those_of_the_command_line(
    tmp_path: Path, folder: str, engine: str
) -> None:
    lines, folders = sentences(1000), [str(FIXTURES / name) for name in folder.split(",")]
    others = [word for one in folders[1:] for word in ("--ensemble", one)]
    chosen = () if engine == "auto" else ("--engine", "torch")
    with serve_process(f"en-de={','.join(folders)}", "--engine", engine, "--threads", 1) as server:
        server.logged("model is ready")
        texts = in_random_batches(server, lines)
    given = "".join(f"{line}\n" for line in lines)
    assert texts == run_command("translate", folders[0], *others, *chosen, given=given).out.splitlines()


def test_a_completion_is_that_of_the_command_line(server: ServeProcess) -> None:
    asked = {"model": "lm", "prompt": "le chien", "temperature": 0, "max_tokens": 6}
    (choice,) = server.post("/v1/completions", asked).json["choices"]
    arguments = ("--temperature", 0, "--max-length", 8)
    generated = run_command("generate", FIXTURES / "lm", "le chien", *arguments).out
    assert f"le chien{choice['text']}" == generated.rstrip("\n")
    pieces = events(server.post("/v1/completions", {**asked, "stream": True}))
    assert "".join(one["choices"][0]["text"] for one in pieces) == choice["text"] and len(pieces) > 2


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 3, "nbest": 2, "scores": True},
        {"prefix": "le"},
        {"require": ["chat"], "alignment": True},
        {"sampling": {"samples": 2, "seed": 5, "temperature": 0.7}},
        {"forbid": ["le"], "max_length": 5},
    ],
    ids=lambda options: next(iter(options)),
)
def test_the_command_of_a_response_gives_its_outputs(server: ServeProcess, options: dict[str, Any]) -> None:
    texts = ["the old dog sees a cat ."]
    values = server.post("/v1/translate", {"model": "en-de", "texts": texts, **options}).json
    (output,) = values["outputs"]
    printed, command = values["reproduce"].split(" | ")
    (line,) = shlex.split(printed)[2:]
    done = run_command(*shlex.split(command)[1:], given=f"{line}\n")
    (hypotheses,) = [json.loads(row)["hypotheses"] for row in done.out.splitlines()]
    assert [one["text"] for one in hypotheses] == [
        output["text"],
        *(one["text"] for one in output["alternatives"]),
    ]
    assert hypotheses[0]["score"] == pytest.approx(output["score"], abs=1e-4)


def test_a_greedy_translation_streams_its_tokens(server: ServeProcess) -> None:
    asked = {"model": "en-de", "texts": "the old dog sees a cat .", "beam": 1, "stream": True}
    *partials, result = events(server.post("/v1/translate", asked))
    text = result["outputs"][0]["text"]
    assert len(partials) > 2 and all(text.startswith(one["text"]) for one in partials)


def test_a_killed_worker_is_restarted_while_the_other_model_serves(server: ServeProcess) -> None:
    (worker, _) = _children(server.process.pid)
    os.kill(worker, signal.SIGKILL)
    started, statuses = time.monotonic(), set()
    while time.monotonic() - started < 30:
        statuses.add(server.form("/translate", q="the dog .", **PAIR).status)
        assert server.get("/health").status == 200
        if 503 in statuses and server.get("/ready").status == 200:
            break
        time.sleep(0.05)
    assert statuses <= {200, 503}
    assert server.form("/translate", q="the dog .", **PAIR).status == 200
    assert "seqloom_worker_restarts_total" in server.get("/metrics").body.decode()


def _children(pid: int) -> list[int]:
    """Return the workers of a server, in the order of their start."""
    return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def test_a_new_best_checkpoint_is_served_without_a_lost_request(server: ServeProcess, run: Path) -> None:
    best = (run / "checkpoints" / "best").resolve()
    shutil.copytree(best, best.with_name("step-999"))
    (run / "checkpoints" / "new").symlink_to("step-999")
    os.replace(run / "checkpoints" / "new", run / "checkpoints" / "best")
    statuses = []
    while not any(line["message"] == "checkpoint is served" for line in server.lines):
        statuses.append(server.form("/translate", q="the dog .", **PAIR).status)
        assert len(statuses) < 5000
    assert set(statuses) == {200}
    assert server.logged("checkpoint is served")[0]["checkpoint"] == "step-999"


def test_sigterm_under_load_finishes_what_was_accepted(server: ServeProcess) -> None:
    lines = sentences(40)
    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(server.post, "/translate", {"q": lines, **PAIR}) for _ in range(8)]
        idle = 'seqloom_queue_depth{model="en-de"} 0.0'
        while idle in server.get("/metrics").body.decode() and not any(one.done() for one in found):
            time.sleep(0.005)
        server.process.send_signal(signal.SIGTERM)
        accepted = [one.result().status if one.exception() is None else 0 for one in found]
    assert server.process.wait(30) == 0
    assert 200 in accepted and set(accepted) <= {200, 503, 0}
    assert [line["message"] for line in server.lines][-1] == "stopped"
    bodies = [one["code"] for one in server.lines if one.get("route") == "/translate"]
    assert 500 not in bodies and 499 not in bodies


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no model"),
        (["runs/missing"], "not a run directory"),
        ([f"x={TRANSFORMER}", f"x={TRANSFORMER}"], "Two models"),
        ([TRANSFORMER, "--host", "0.0.0.0"], "--no-auth"),
        ([TRANSFORMER, "--config", "missing.yaml"], "missing.yaml"),
        ([TRANSFORMER, "--api-keys", "missing.txt"], "missing.txt"),
    ],
)
def test_a_wrong_start_is_an_error_with_exit_code_2(arguments: list[str], message: str) -> None:
    done = run_command("serve", *arguments)
    assert done.code == 2 and message in done.err


def test_a_model_that_cannot_be_loaded_ends_the_server_with_its_error() -> None:
    done = run_process("serve", FIXTURES / "mlm", "--port", 0)
    assert done.code == 2 and "error:" in done.err and "fills gaps" in done.err


def test_the_server_does_not_import_torch(server: ServeProcess) -> None:
    del server  # started before: the modules are compiled
    from support.commands import run_python

    code = "import seqloom.serve.server, seqloom.cli.main, sys; print('torch' in sys.modules)"
    assert run_python(code).strip() == "False"
