from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from seqloom.errors import SeqloomError
from seqloom.machine import cache_folder, keep_freed_memory, make_cache_folder, processors


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("SEQLOOM_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "seqloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "seqloom"


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
