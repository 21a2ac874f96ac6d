"""Running of a comparison: failures are rows, and an interrupted comparison continues to the same results."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seqloom.compare import worker
from seqloom.compare.folder import ComparisonFolder, System
from seqloom.compare.results import Results, read_results
from seqloom.compare.runner import cost, run_comparison, set_up, start_process
from seqloom.compare.worker import INTERRUPTED
from seqloom.errors import SeqloomError
from seqloom.run.planner import plan
from seqloom.run.planner.calibration import Speed
from support.comparisons import TINY_LSTM, compared, in_process, settings_for, write_pairs

LAST = {"lstm-last": TINY_LSTM}


def quality(results: Results) -> Any:
    """Return everything that does not depend on the clock."""
    return [
        (row.label, row.scores, row.difference, row.by_length, [point.value for point in row.curve])
        for row in results.rows
    ], results.examples


def _times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_an_interrupted_comparison_continues_to_the_same_results(
    comparison: ComparisonFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    folder, settings = ComparisonFolder(tmp_path / "cmp"), settings_for(pairs)
    setup = set_up(folder, settings)

    def stop_before_decoding(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # Ctrl-C after the training of the first system
        patch.setattr(worker, "_decode", stop_before_decoding)
        assert not run_comparison(folder, setup, start=in_process)
    assert read_results(folder).missing == ["word-based", "lstm-last", "lstm-bilinear"]
    calls: list[str] = []

    def stop_at_second(chosen: ComparisonFolder, system: System) -> int:
        calls.append(system.name)
        return INTERRUPTED if len(calls) == 2 else in_process(chosen, system)

    assert not run_comparison(folder, setup, start=stop_at_second)
    finished = _times(folder.path / "runs" / "word-based")
    again = set_up(folder, settings)
    assert again == setup
    assert run_comparison(folder, again, start=in_process)
    assert _times(folder.path / "runs" / "word-based") == finished
    assert quality(read_results(folder)) == quality(read_results(comparison))
    everything = _times(folder.path)
    assert run_comparison(folder, again, start=stop_at_second) and _times(folder.path) == everything


def test_a_run_that_fails_is_a_row_with_a_diagnosis(tmp_path: Path, messages: list[str]) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    wild = {"model.name": "rnn-last", "model.activation": "identity", "train.learning_rate": 1e20}
    wild |= {**TINY_LSTM, "train.clip": 0, "train.warmup": 0, "train.max_nonfinite": 2}
    models = {**LAST, "wild": wild}
    folder, setup = compared(tmp_path / "cmp", settings_for(pairs, models=models, steps=6))
    results = read_results(folder)
    assert [row.label for row in results.rows] == ["lstm-last"] and results.missing == []
    (failed,) = results.failed
    assert failed.name == "wild" and "not finite" in failed.message
    assert any("not finite" in finding["problem"] for finding in failed.findings)
    assert any("wild failed" in message for message in messages)
    assert run_comparison(folder, setup, start=lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(ZeroDivisionError):
        run_comparison(folder, setup, retry=True, start=lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]


def test_a_crash_is_a_row(tmp_path: Path) -> None:
    folder = ComparisonFolder(tmp_path / "cmp")
    setup = set_up(folder, settings_for(write_pairs(tmp_path / "pairs.tsv"), models=LAST))
    assert run_comparison(folder, setup, start=lambda *_: -signal.SIGKILL)
    (failed,) = read_results(folder).failed
    assert "SIGKILL" in failed.message and "memory" in failed.hint


def test_an_error_of_the_code_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*arguments: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(worker, "_decode", crash)
    settings = settings_for(write_pairs(tmp_path / "pairs.tsv"), models={"word-based": {}})
    folder, _ = compared(tmp_path / "cmp", settings)
    assert read_results(folder).failed[0].message == "ValueError: a bug"
    assert "Traceback" in capsys.readouterr().err


def test_systems_run_in_processes_of_their_own_that_end_with_the_parent(tmp_path: Path) -> None:
    folder = ComparisonFolder(tmp_path / "cmp")
    setup = set_up(folder, settings_for(write_pairs(tmp_path / "pairs.tsv"), models={"word-based": {}}))
    (system,) = setup.systems
    words = [sys.executable, "-m", "seqloom.compare.worker", str(folder.path), system.name]
    orphan = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=os.environ)
    assert orphan.returncode == -signal.SIGTERM  # its standard input has ended, as that of an orphan
    assert not folder.is_done(system)
    assert start_process(folder, system) == 0
    decoding, training = folder.decoding(system), folder.training(system)
    assert decoding is not None and len(decoding.texts) == setup.sizes.test
    assert training is not None and training.memory_mb > 50


def test_the_cost_is_known_before_the_start(comparison: ComparisonFolder) -> None:
    setup = comparison.setup()
    text = cost(setup, setup.systems)
    assert "2 runs, 4 updates each" in text and "fit word-based" in text
    assert f"{setup.sizes.test} test lines" in text
    assert cost(setup, setup.systems[:1]).startswith("the time to fit")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"models": {"lstm-lastt": {}}}, "lstm-lastt"),
        ({"models": {"mlm": {}}}, "this data is pairs"),
        ({"models": {"transformer-syntax": {}}}, "dependency tree"),
        ({"metrics": "bleu,distinct1"}, "no test of significance"),
        ({"set": ("model.wid=3",)}, "model.wid"),
    ],
)
def test_a_wrong_setting_is_found_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], match: str
) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    with pytest.raises(SeqloomError, match=match):
        set_up(ComparisonFolder(tmp_path / "cmp"), settings_for(pairs, **changes))
    assert not (tmp_path / "cmp").exists()


def test_a_budget_in_minutes_plans_for_the_measured_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed = Speed(10.0, 1e4, rows=100, parameters=1000, memory_mb=100, threads=1)  # 5,400 updates in 10 minutes
    monkeypatch.setattr(plan, "measure_speed", lambda *_: speed)
    pairs = write_pairs(tmp_path / "pairs.tsv")
    settings = settings_for(pairs, models=LAST, steps=None, minutes=10, set=())
    (system,) = set_up(ComparisonFolder(tmp_path / "cmp"), settings).systems
    train = system.config["train"]
    assert (train["max_minutes"], train["max_steps"], train["warmup"]) == (10, None, 400)
    assert system.seconds == 600


def test_a_folder_holds_one_comparison(comparison: ComparisonFolder, tmp_path: Path) -> None:
    settings = comparison.setup().settings
    copy = ComparisonFolder(shutil.copytree(comparison.path, tmp_path / "cmp"))
    with pytest.raises(SeqloomError, match="other steps: 4, not 5"):
        set_up(copy, settings.model_copy(update={"steps": 5}))
    with pytest.raises(SeqloomError, match="not empty"):
        set_up(ComparisonFolder(copy.path / "data"), settings)
    with pytest.raises(SeqloomError, match="not a comparison"):
        ComparisonFolder(tmp_path).setup()


def test_changed_data_is_an_error(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    settings = settings_for(pairs, models={"word-based": {}})
    folder = ComparisonFolder(tmp_path / "cmp")
    set_up(folder, settings)
    pairs.write_text(pairs.read_text() + "new\tNEW\n")
    with pytest.raises(SeqloomError, match=r"pairs.tsv has changed"):
        set_up(folder, settings)


def test_too_few_pairs_are_an_error(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\nc\td\n")
    with pytest.raises(SeqloomError, match="2 pairs are too few"):
        set_up(ComparisonFolder(tmp_path / "cmp"), settings_for(pairs))
