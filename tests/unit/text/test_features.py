"""Detection of feature files and resolution of their paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqloom.text.features import feature_file, is_features, resolve_path


@pytest.mark.parametrize(
    "line, file",
    [
        ("a.wav", "a.wav"),
        (" clips/b.NPY ", "clips/b.NPY"),
        ("c.npz", "c.npz"),
        ("c.npz#17", "c.npz"),
        ("c.npz#a#b", "c.npz"),
        ("take#2.npz#a", "take#2.npz"),
        ("take#2.wav", "take#2.wav"),
    ],
)
def test_the_path_is_extracted_from_a_line(line: str, file: str) -> None:
    assert feature_file(line) == file


@pytest.mark.parametrize("line", ["a.wav", "b.NPY", "c.npz", "c.npz#17", "take#2.wav"])
def test_feature_files_are_detected(line: str) -> None:
    assert is_features(line)


@pytest.mark.parametrize("line", ["", "a wave", "a.wav is a file", "a.mp3", "a.wav#3", "3#4"])
def test_other_lines_are_not_feature_files(line: str) -> None:
    assert not is_features(line)


def test_a_path_is_found_next_to_its_table(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "a.wav").touch()
    (tmp_path / "all.npz").touch()
    table = str(tmp_path / "pairs.tsv")
    assert resolve_path("clips/a.wav", table) == str(tmp_path / "clips" / "a.wav")
    assert resolve_path("all.npz#k", table) == str(tmp_path / "all.npz#k")
    assert resolve_path(str(tmp_path / "all.npz"), table) == str(tmp_path / "all.npz")


def test_other_lines_stay_unchanged(tmp_path: Path) -> None:
    table = str(tmp_path / "pairs.tsv")
    for line in ("clips/gone.wav", "press play on song.wav", "a text", "", "long " * 5000 + ".wav", "a\0b.npy"):
        assert resolve_path(line, table) == line
