from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from seqloom.errors import SeqloomError
from seqloom.system import (
    busy_elsewhere,
    cache_folder,
    check_processes,
    checked_threads,
    keep_freed_memory,
    make_cache_folder,
    processors,
)


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("SEQLOOM_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "seqloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "seqloom"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it in /proc")
def test_other_programs_are_seen_and_this_one_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            assert busy_elsewhere(1.0) > 0.3  # of one processor, if it has to share it
        finally:
            other.kill()


def test_what_this_process_does_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    told = iter([f"cpu {ticks} 0 {ticks} 900", f"cpu {2 * ticks} 0 {2 * ticks} 990"])  # 2 seconds more
    own = iter([SimpleNamespace(user=1.0, system=0.5), SimpleNamespace(user=2.0, system=0.75)])  # 1.25 of them
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: next(told))
    monkeypatch.setattr(os, "times", lambda: next(own))
    assert busy_elsewhere(0.5) == pytest.approx(0.75 / 0.5)


def test_where_the_system_does_not_tell_nobody_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", refuse)
    assert busy_elsewhere(0.01) == 0.0


def test_there_is_at_least_one_processor() -> None:
    assert 1 <= processors() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("platform", [sys.platform, "darwin"])
def test_memory_tuning_works_everywhere(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    keep_freed_memory()


def test_a_cache_folder_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "file"))
    with pytest.raises(SeqloomError, match=r"cache folder .*file"):
        make_cache_folder("stores")


def test_the_number_of_threads_is_bounded() -> None:
    assert checked_threads(None) == processors()
    assert checked_threads(1024) == 1024
    for threads in (-1, 0, 1025, 100_000, 10**20):
        with pytest.raises(SeqloomError, match="threads must be from 1 to 1,024"):
            checked_threads(threads)


def test_the_number_of_processes_is_bounded() -> None:
    check_processes(8)
    with pytest.raises(SeqloomError, match="--processes must be at most"):
        check_processes(100_000)
