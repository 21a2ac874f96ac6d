from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

import pytest

from seqloom.files import new_folder, output, point_to, sha256, write_atomically, write_json


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_atomically(file, "old\n")
    write_atomically(file, "ñew\n")
    assert file.read_bytes() == "ñew\n".encode()
    assert _names(tmp_path) == ["a.txt"]


def test_a_crash_before_the_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    write_atomically(file, "old")
    monkeypatch.setattr(os, "replace", _crash)
    with pytest.raises(RuntimeError):
        write_atomically(file, "new")
    assert file.read_text() == "old"


def _crash(*_: object) -> None:
    raise RuntimeError("power failure")


def test_json_is_readable(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"λ": [1, 2]})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"λ": [1, 2]}
    assert "λ" in text
    assert text.endswith("}\n")


def test_a_folder_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with new_folder(target) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "a").write_text("1")
        assert not target.exists()
    assert (target / "sub" / "a").read_text() == "1"
    with pytest.raises(RuntimeError), new_folder(tmp_path / "other"):
        raise RuntimeError
    assert _names(tmp_path) == ["run"]


def test_a_folder_is_replaced_and_a_leftover_cleared(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "old").write_text("")
    (tmp_path / ".run.tmp").mkdir()
    (tmp_path / ".run.tmp" / "leftover").write_text("")
    with new_folder(target) as folder:
        (folder / "new").write_text("")
    assert _names(target) == ["new"]
    assert _names(tmp_path) == ["run"]


def test_a_link_moves_in_one_step(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        point_to(tmp_path / "best", name)
        assert (tmp_path / "best").resolve() == tmp_path / name
    assert os.readlink(tmp_path / "best") == "b"  # relative, so that the folder can be moved
    assert _names(tmp_path) == ["a", "b", "best"]


def test_the_checksum(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


def test_output_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with output(path) as file:
        file.write("ä\n")
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "ä\n"
    assert list(tmp_path.iterdir()) == [path]


def test_output_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with contextlib.suppress(ZeroDivisionError), output(path) as file:
        file.write("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
