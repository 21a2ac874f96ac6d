from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

import pytest

from seqloom.errors import SeqloomError
from seqloom.files import (
    check_sealed_text,
    clean_up_leftovers,
    new_folder,
    point_to,
    read_sealed,
    remove_folder,
    sealed,
    sealed_text,
    sha256,
    write_atomically,
    write_json,
)


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


def _crash(*_: object, **__: object) -> None:
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


VALUES = {"name": "ä", "steps": [1, 2], "rate": 0.1, "inner": {"b": None, "a": True}}


def test_what_is_sealed_comes_back(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", sealed(VALUES))
    assert read_sealed(tmp_path / "a.json") == VALUES
    write_json(tmp_path / "a.json", VALUES)  # of an earlier version: no checksum, nothing to compare
    assert read_sealed(tmp_path / "a.json") == VALUES


@pytest.mark.parametrize("change", [{"steps": [1, 3]}, {"rate": 0.2}, {"more": 1}, {"seal": "0"}])
def test_what_was_changed_is_noticed(tmp_path: Path, change: dict[str, object]) -> None:
    write_json(tmp_path / "a.json", {**sealed(VALUES), **change})
    with pytest.raises(SeqloomError, match=r"a\.json is damaged: its checksum does not match"):
        read_sealed(tmp_path / "a.json")


def test_every_bit_of_a_sealed_file_counts(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, sealed(VALUES))
    content = file.read_bytes()
    for bit in range(0, 8 * len(content), 3):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        with contextlib.suppress(SeqloomError):
            found = read_sealed(file)
            # White space, or the name of the seal: whoever reads the values does not know the other name.
            assert found == VALUES or found.keys() - VALUES.keys()


def test_a_list_is_not_sealed(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", [1])
    with pytest.raises(SeqloomError, match="it is not a JSON object"):
        read_sealed(tmp_path / "a.json")


def test_every_bit_of_a_sealed_text_counts(tmp_path: Path) -> None:
    file, text = tmp_path / "a.yaml", "a: 1\nb: ü\n"
    write_atomically(file, sealed_text(text))
    check_sealed_text(file)
    content = file.read_bytes()
    for bit in range(8 * len(text.encode())):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        with pytest.raises(SeqloomError, match=r"a\.yaml was changed") as caught:
            check_sealed_text(file)
        assert "remove its last line" in caught.value.hint
    file.write_text("a: 2\n")
    check_sealed_text(file)


@pytest.mark.parametrize("killed", [False, True])
def test_a_folder_that_is_replaced_is_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    target, rename = tmp_path / "run", os.rename
    target.mkdir()
    (target / "old").write_text("")

    def failing(source: Path, goal: Path) -> None:
        if source.name == ".run.tmp":
            raise KeyboardInterrupt if killed else OSError("not now")
        rename(source, goal)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises((OSError, KeyboardInterrupt)), new_folder(target) as folder:
        (folder / "new").write_text("")
    assert target.exists() != killed
    monkeypatch.undo()
    clean_up_leftovers(tmp_path)
    assert _names(tmp_path) == ["run"]
    assert _names(target) == ["old"]


def test_what_is_left_behind_is_cleared(tmp_path: Path) -> None:
    for name in ("run", ".run.old", ".a.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    (tmp_path / ".b.tmp").write_text("")
    os.symlink("run", tmp_path / ".best.tmp")
    clean_up_leftovers(tmp_path)
    assert _names(tmp_path) == ["run"]
    assert _names(tmp_path / "run") == ["file"]


def test_half_a_folder_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").write_text("")
    monkeypatch.setattr(os, "unlink", _crash)
    with pytest.raises(RuntimeError):
        remove_folder(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, content: object) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(tmp_path / "a.txt", "new")
    assert _names(tmp_path) == []
