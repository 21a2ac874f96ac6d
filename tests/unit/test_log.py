"""Logging: what reaches the console, the user's own handlers and log.txt."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom.log import IN_PROGRESS_BAR, LOGGER, LineFile, console, log_file
from seqloom.progress import ProgressBar
from support.logs import unconfigured_logging

logger = logging.getLogger("seqloom.some.module")


def log_both() -> None:
    logger.info("step %d of [b]4[/b] :smile:", 3)
    logger.warning("disk is full")


def test_messages_are_plain_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with unconfigured_logging(), console():
        log_both()
    assert capsys.readouterr() == ("", "step 3 of [b]4[/b] :smile:\ndisk is full\n")


def test_quiet_shows_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    with unconfigured_logging(), console(quiet=True):
        log_both()
    assert capsys.readouterr() == ("", "disk is full\n")


def test_only_the_main_process_shows_messages(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with unconfigured_logging(), console(is_main=False), log_file(tmp_path / "log.txt"):
        log_both()
    assert capsys.readouterr() == ("", "")
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 2


def test_nothing_is_shown_or_left_behind_after_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    before = LOGGER.handlers.copy(), LOGGER.level, LOGGER.propagate
    with unconfigured_logging():
        with pytest.raises(KeyError), console(force=True):
            raise KeyError
        log_both()
    assert capsys.readouterr() == ("", "")
    assert (LOGGER.handlers, LOGGER.level, LOGGER.propagate) == before


def test_a_user_who_has_configured_logging_gets_messages_once(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with console():
        log_both()
        logging.getLogger("other").warning("theirs")
    assert caplog.messages == ["step 3 of [b]4[/b] :smile:", "disk is full", "theirs"]
    assert capsys.readouterr() == ("", "")


def test_quiet_applies_to_handlers_of_the_user(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with console(quiet=True):
        log_both()
        logging.getLogger("other").info("theirs")
    assert caplog.messages == ["disk is full", "theirs"]
    assert all(not handler.filters for handler in logging.getLogger().handlers)


def test_a_level_of_the_user_is_respected(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(LOGGER, "level", logging.ERROR)
    with console(), log_file(tmp_path / "log.txt"):
        log_both()
        logger.error("lost")
    assert caplog.messages == ["lost"]
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 3


def test_the_command_line_shows_messages_once_whatever_the_root_logger_does(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with console(force=True), console():  # a command, and training inside it
        log_both()
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert caplog.messages == []


def test_on_a_terminal_messages_appear_above_the_progress_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with console(force=True), ProgressBar("training", total=1.0):
        log_both()
        logger.info("loss 2.5", extra=IN_PROGRESS_BAR)
    printed = capsys.readouterr().err
    assert "step 3 of [b]4[/b] :smile:" in printed and "disk is full" in printed
    assert "loss 2.5" not in printed


def test_the_log_file_has_the_time_of_every_message(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("earlier\n")
    with log_file(path):
        logger.info("loss 2.5", extra=IN_PROGRESS_BAR)
        logger.debug("detail")
        assert path.read_text().endswith(" loss 2.5\n"), "every line is on disk at once"
    earlier, line = path.read_text().splitlines()
    assert earlier == "earlier"
    assert len(line.split(" ")[0].split(":")) == 3


def test_a_full_disk_is_reported_once_and_lines_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    def full(handle: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "log.txt"
    with log_file(path):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            logger.info("one")
            logger.info("two")
        assert path.read_text() == ""
        logger.info("three")
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            logger.info("four")
    report = f"{path} cannot be written: No space left on device; its lines are kept in memory"
    assert sorted(messages) == sorted(["one", "two", "three", "four", report, report])
    assert [line.split(" ")[1] for line in path.read_text().splitlines()] == ["one", "two", "three", "four"]


def test_a_failed_line_of_another_file_is_in_the_log_only_on_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    file = LineFile(tmp_path / "metrics.jsonl")
    with log_file(tmp_path / "log.txt"), monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.EIO, "input error")))
        file.append("{}")
    file.close()
    assert messages[0].startswith(f"{tmp_path / 'metrics.jsonl'} cannot be written: input error")
    assert (tmp_path / "log.txt").read_text() == ""


def test_importing_configures_nothing() -> None:
    code = """
import logging, seqloom
assert logging.getLogger().handlers == []
handlers = logging.getLogger("seqloom").handlers
assert [type(one) for one in handlers] == [logging.NullHandler], handlers
logging.getLogger("seqloom.x").warning("silent")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
