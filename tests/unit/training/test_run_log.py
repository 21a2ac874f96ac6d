from __future__ import annotations

import errno
import json
import logging
import math
import os
from pathlib import Path

import pytest

from seqloom.log import console
from seqloom.training.run_log import RunLog, clipping, peak_memory_mb


def _lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_records_are_written_as_json_and_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with console(force=True), RunLog(tmp_path) as log:
        log.record("train", 50, {"loss": 1.23456789, "tokens_per_second": 12345.6, "seconds": 3.0})
        logging.getLogger("seqloom.training").info("done [bold]")
        log.progress(0.5, 10.0, {"loss": 1.0})  # no bar without a terminal
    assert _lines(tmp_path) == [
        {"kind": "train", "step": 50, "loss": 1.23456789, "tokens_per_second": 12345.6, "seconds": 3.0}
    ]
    plain = ["train step 50: loss 1.235 · tokens per second 12,346", "done [bold]"]
    captured = capsys.readouterr()
    assert captured.err.splitlines() == plain
    assert captured.out == ""
    text = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in text] == plain


def test_quiet_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with console(force=True, quiet=True), RunLog(tmp_path, progress=False) as log:
        log.record("valid", 5, {"loss": 1.0})
    assert capsys.readouterr() == ("", "")
    assert len(_lines(tmp_path)) == 1
    assert (tmp_path / "log.txt").read_text().endswith("valid step 5: loss 1\n")


def test_quiet_can_still_show_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with console(force=True, quiet=True), RunLog(tmp_path) as log:
        now += 10
        log.record("train", 5, {"loss": 1.0})
        log.progress(0.5, 10.0, {"loss": 1.0})
    assert capsys.readouterr().err == "training: 50 %, about 10 s left: loss 1\n"


def test_a_resumed_run_drops_entries_of_steps_that_it_repeats(tmp_path: Path) -> None:
    with RunLog(tmp_path, progress=False) as log:
        for step in (10, 20, 30):
            log.record("train", step, {"loss": step / 10})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')  # the run was killed while writing
    with RunLog(tmp_path, step=20, progress=False) as log:
        log.record("train", 30, {"loss": 9.0})
    assert [(line["step"], line["loss"]) for line in _lines(tmp_path)] == [(10, 1.0), (20, 2.0), (30, 9.0)]


def test_a_line_is_on_disk_as_soon_as_it_is_recorded(tmp_path: Path) -> None:
    with RunLog(tmp_path, progress=False) as log:
        log.record("train", 1, {"loss": 1.0})
        assert len(_lines(tmp_path)) == 1


def test_a_bar_is_drawn_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with console(force=True), RunLog(tmp_path) as log:
        assert log.bar.is_live
        log.progress(0.25, 90.0, {"loss": 1.5})
        log.record("train", 2, {"loss": 3.0})
        log.record("valid", 3, {"loss": 2.0})
    printed = capsys.readouterr().err
    assert "training" in printed and "25 %, about 2 min left: loss 1.5" in printed
    assert "valid step 3" in printed and "train step 2" not in printed
    assert len(_lines(tmp_path)) == len((tmp_path / "log.txt").read_text().splitlines()) == 2


def test_clipping_is_shown_when_it_happens_and_norms_by_layer_only_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    norms = {"encoder.0": 0.5, "output": math.inf}
    with console(force=True), RunLog(tmp_path) as log:
        log.record("train", 1, {"loss": 1.0, "clipped": 0.0, "clip_factor": 1.0, "gradient_norms": norms})
        log.record("train", 2, {"loss": 1.0, "clipped": 0.125, "clip_factor": 0.71, "gradient_norms": norms})
        log.record("train", 3, {"loss": 1.0, "clipped": 1.0, "clip_factor": 0.5, "gradient_norms": norms})
    assert capsys.readouterr().err.splitlines() == [
        "train step 1: loss 1",
        "train step 2: loss 1 · clipped 12.5 % · clip factor 0.71",
        "train step 3: loss 1 · clipped 100 % · clip factor 0.5",
    ]
    assert [line["gradient_norms"] for line in _lines(tmp_path)] == [{"encoder.0": 0.5, "output": None}] * 3
    assert [line["clipped"] for line in _lines(tmp_path)] == [0.0, 0.125, 1.0]


class _Board:
    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def close(self) -> None: ...


def test_tensorboard_groups_the_norms_of_the_layers(tmp_path: Path) -> None:
    board = _Board()
    with RunLog(tmp_path, progress=False) as log:
        log.board = board
        log.record(
            "train", 7, {"loss": 1.0, "clipped": 0.5, "gradient_norms": {"encoder.0": 0.5, "output": 2.0}}
        )
    assert board.scalars == [
        ("train/loss", 1.0, 7),
        ("train/clipped", 0.5, 7),
        ("gradient_norm/encoder.0", 0.5, 7),
        ("gradient_norm/output", 2.0, 7),
    ]


def _report(step: int, clipped: float, factor: float) -> dict[str, object]:
    return {"kind": "train", "step": step, "clipped": clipped, "clip_factor": factor}


def test_clipping_of_a_run_counts_updates_not_reports() -> None:
    lines = [
        _report(50, 0.5, 0.2),  # 25 of 50 updates
        {"kind": "valid", "step": 60, "loss": 1.0},
        _report(100, 0.0, 1.0),  # none
        _report(110, 0.5, 0.8),  # 5 of 10; the last report covers fewer updates
    ]
    assert clipping(lines) == pytest.approx({"share": 30 / 110, "factor": (25 * 0.2 + 5 * 0.8) / 30})


def test_clipping_of_a_run_that_did_not_always_record_it() -> None:
    old = [{"kind": "train", "step": step, "loss": 1.0} for step in (50, 100)]
    assert clipping(old) is None
    assert clipping([]) is None
    assert clipping([*old, _report(150, 0.5, 0.25)]) == {"share": 0.5, "factor": 0.25}
    assert clipping([_report(50, 0.0, 1.0)]) == {"share": 0.0, "factor": 1.0}


def test_the_peak_memory_is_plausible() -> None:
    assert 10 < peak_memory_mb() < 1_000_000


def test_a_line_that_cannot_be_written_is_written_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write, room = os.write, [10]

    def small(handle: int, content: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(handle, content[: room[0]])
        room[0] -= written
        return written

    with console(force=True), RunLog(tmp_path) as log:
        monkeypatch.setattr(os, "write", small)
        log.record("train", 1, {"loss": 1.0})
        assert "metrics.jsonl cannot be written: No space left on device" in capsys.readouterr().err
        room[0] = 10_000
        log.record("train", 2, {"loss": 2.0})
    assert [line["step"] for line in _lines(tmp_path)] == [1, 2]
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 2


def test_the_last_line_is_retried_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with RunLog(tmp_path, progress=False) as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            log.record("train", 1, {"loss": 1.0})
        assert _lines(tmp_path) == []
    assert [line["step"] for line in _lines(tmp_path)] == [1]


@pytest.mark.parametrize("averaged", [True, False])
def test_the_entry_of_a_missing_average_is_dropped(tmp_path: Path, averaged: bool) -> None:
    with RunLog(tmp_path, progress=False) as log:
        log.record("valid", 4, {"loss": 1.0})
        log.record("average", 4, {"loss": 1.0})
    with RunLog(tmp_path, step=4, averaged=averaged, progress=False):
        pass
    assert [line["kind"] for line in _lines(tmp_path)] == (["valid", "average"] if averaged else ["valid"])


def test_without_a_terminal_an_estimate_is_printed_within_twenty_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with RunLog(tmp_path) as log:
        for second in range(1, 101):
            now += 1
            log.progress(second / 1000, 1000 - second, {"loss": 2.5, "lr": 0.001})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: 1 %, about 16 min left: loss 2.5 · lr 0.001"
    assert len(lines) == 3  # after 10, 30 and 70 seconds
