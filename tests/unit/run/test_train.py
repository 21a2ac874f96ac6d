"""Training from settings to a run directory."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.run import train as pipeline
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.guards import stop_on_signals
from seqloom.run.load import load
from seqloom.training import validation
from support.configs import FOUR_STEPS, SHORT_OUTPUTS, TINY
from support.logs import unconfigured_logging
from support.runs import create_run, write_digits

SETTINGS: dict[str, Any] = {**TINY, **FOUR_STEPS, **SHORT_OUTPUTS}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_digits(tmp_path / "pairs.tsv")


def run(table: Path, out: Path, **settings: Any) -> Path:
    pipeline.train(table, out=out, size="tiny", settings={**SETTINGS, **settings}, plan="fixed", quiet=True)
    return out


def measured(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in Run(folder).metrics() if line["kind"] == kind]


def test_train_returns_the_same_as_load(table: Path, tmp_path: Path) -> None:
    made = pipeline.train(table, out=tmp_path / "run", size="tiny", settings=SETTINGS, plan="fixed", quiet=True)
    assert made.translate(["1 2", ""]) == load(tmp_path / "run").translate(["1 2", ""])


def test_a_new_run_is_complete(table: Path, tmp_path: Path) -> None:
    made = create_run(tmp_path / "a" / "run", table, SETTINGS)
    names = sorted(path.name for path in made.folder.iterdir())
    assert names == ["config.yaml", "data-report.json", "data.json", "tokenizer"]
    assert json.loads(made.data_file.read_text())["files"].keys() == {str(table)}
    assert [path.name for path in made.folder.parent.iterdir()] == ["run"]


def test_the_run_directory_may_be_an_empty_folder_only(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    run(table, out)
    with pytest.raises(SeqloomError, match="already exists and is not empty"):
        run(table, out)


def test_a_cache_that_cannot_be_written_is_reported_before_the_tokenizers_are_trained(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(table / "cache"))
    with pytest.raises(SeqloomError, match="cache folder"):
        pipeline.create(compose(values={**SETTINGS, "data.train": str(table)}), tmp_path / "run")
    assert messages == []
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    pipeline.create(compose(values={**SETTINGS, "data.train": str(table)}), tmp_path / "run")
    assert "tokenizer: training on" in messages[0]


def test_a_model_that_cannot_be_built_leaves_no_files(table: Path, tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"model\.tie=all"):
        run(table, tmp_path / "run", **{"model.tie": "all", "text.joint": False})
    assert not (tmp_path / "run").exists()


def test_two_files_and_a_validation_table(table: Path, tmp_path: Path) -> None:
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    (tmp_path / "s.txt").write_text("\n".join(row[0] for row in rows))
    (tmp_path / "t.txt").write_text("\n".join(row[1] for row in rows))
    pipeline.train(
        out=tmp_path / "run",
        source=tmp_path / "s.txt",
        target=tmp_path / "t.txt",
        valid=table,
        size="tiny",
        settings=SETTINGS,
        plan="fixed",
        quiet=True,
    )
    assert len(json.loads((tmp_path / "run" / "data.json").read_text())["files"]) == 3


def test_metrics_by_decoding_choose_the_best(table: Path, tmp_path: Path) -> None:
    settings = {"train.metrics": ["exact", "cer"], "train.best_by": "cer", "train.validate_lines": 5}
    folder = run(table, tmp_path / "run", **settings)
    lines = measured(folder, "valid")
    assert [set(line) >= {"loss", "exact", "cer"} for line in lines] == [True, True]
    first, second = (line["cer"] for line in lines)
    best = (folder / "checkpoints" / "best").readlink().name
    assert best == ("step-4" if second < first else "step-2")  # an error rate: lower is better


def test_patience_ends_a_run(table: Path, tmp_path: Path) -> None:
    settings = {
        "train.patience": 1,
        "train.metrics": ["exact"],
        "train.best_by": "exact",
        "train.max_steps": 50,
        "train.learning_rate": 1e-9,
        "train.validate_lines": 3,
    }
    folder = run(table, tmp_path / "run", **settings)
    assert Run(folder).checkpoints().steps()[-1] == 4
    state = json.loads((folder / "checkpoints" / "step-4" / "state.json").read_text())
    assert "has not improved" in state["finished"]


def test_the_average_of_the_last_checkpoints_is_validated_and_kept(table: Path, tmp_path: Path) -> None:
    folder = run(table, tmp_path / "run", **{"train.average": 2})
    [line] = measured(folder, "average")
    assert line["of"] == 2
    assert (folder / "checkpoints" / "average" / "model.safetensors").is_file()
    served = (folder / "checkpoints" / "best").readlink().name
    assert (served == "average") == line["best"]


def test_epochs_end_a_run(table: Path, tmp_path: Path) -> None:
    folder = run(table, tmp_path / "run", **{"train.max_steps": None, "train.max_epochs": 2})
    newest = Run(folder).checkpoints().steps()[-1]
    state = json.loads((folder / "checkpoints" / f"step-{newest}" / "state.json").read_text())
    assert state["finished"] == "reached train.max_epochs=2"
    assert state["target_tokens"] > 0


def test_messages_are_printed_unless_quiet(
    table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(table, tmp_path / "quiet")
    assert capfd.readouterr() == ("", "")
    with unconfigured_logging():
        pipeline.train(table, out=tmp_path / "loud", size="tiny", settings=SETTINGS, plan="fixed")
    printed = capfd.readouterr().err
    assert "60 of 60 lines kept" in printed
    assert "done after 4 steps" in printed
    assert "done after 4 steps" in (tmp_path / "quiet" / "log.txt").read_text()


@pytest.mark.parametrize("busy", [0.1, 1.2])
def test_a_busy_machine_is_reported(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: float
) -> None:
    monkeypatch.setattr(pipeline, "busy_elsewhere", lambda: busy)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    folder = run(table, tmp_path / "run")
    log = (folder / "log.txt").read_text()
    hint = "other programs use 1.2 of 2 processors, which slows down 2 threads: train.threads=1 may be faster"
    assert (hint in log, "other programs" in log) == (busy > 1, busy > 1)


def test_training_in_another_thread(table: Path, tmp_path: Path) -> None:
    thread = threading.Thread(target=run, args=(table, tmp_path / "run"))
    thread.start()
    thread.join()
    assert (tmp_path / "run" / "checkpoints" / "best").exists()


def test_a_signal_requests_a_stop_and_a_second_interrupt_is_immediate(messages: list[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signals() as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        assert messages == ["SIGINT received: saving"]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("when", ["loss", "metrics"])
def test_a_stop_request_interrupts_validation(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    settings = {**SETTINGS, "data.train": str(table), "train.metrics": "bleu", "train.batch_tokens": 20}
    run(table, tmp_path / "whole", **settings)
    made = pipeline.create(compose(values=settings), tmp_path / "run", quiet=True)
    name, method = ("LossModule", "forward") if when == "loss" else ("TorchTranslator", "translate")
    original, calls = getattr(validation, name), []

    def stop_request(*given: Any, **options: Any) -> Any:
        calls.append(1)
        os.kill(os.getpid(), signal.SIGTERM)
        return getattr(original, method)(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(validation, name, type(name, (original,), {method: stop_request}))
        state = pipeline.continue_run(made, quiet=True)
    assert len(calls) == 1
    assert (state.step, state.finished) == (2, "")
    assert measured(made.folder, "valid") == []
    assert "SIGTERM received: saving" in (made.folder / "log.txt").read_text()
    pipeline.continue_run(made, quiet=True)
    for file in ("model.safetensors", "training.safetensors"):
        last = Path("checkpoints", "step-4", file)
        assert (made.folder / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()
    assert [line["step"] for line in measured(made.folder, "valid")] == [2, 4]


def test_a_disk_failure_when_resuming_is_an_error_message(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(table, tmp_path / "run")

    def broken(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder / "metrics.jsonl"))

    monkeypatch.setattr("seqloom.training.run_log.write_atomically", broken)
    with pytest.raises(SeqloomError, match=r"run failed: .*metrics\.jsonl: Read-only file system") as caught:
        pipeline.continue_run(Run.open(folder), quiet=True)
    assert f"seqloom resume {folder}" in caught.value.hint


def test_damaged_initial_weights_are_an_error(table: Path, tmp_path: Path) -> None:
    first = run(table, tmp_path / "first")
    made = create_run(tmp_path / "second", table, {**SETTINGS, "train.init_from": str(first)})
    content = bytearray(made.initial_file.read_bytes())
    content[-1] ^= 1
    made.initial_file.write_bytes(content)
    with pytest.raises(SeqloomError, match=r"initial\.safetensors is damaged"):
        pipeline.continue_run(made, quiet=True)


def test_a_run_that_diverges_is_an_error_and_keeps_its_checkpoints(table: Path, tmp_path: Path) -> None:
    diverging = {"train.learning_rate": 1e10, "train.clip": 0, "train.warmup": 0, "train.metrics": "bleu"}
    with pytest.raises(SeqloomError, match="diverged"):
        run(table, tmp_path / "run", **diverging, **{"train.max_steps": 8, "train.max_nonfinite": 50})
    assert Run(tmp_path / "run").checkpoints().steps() == [4, 6, 8]
