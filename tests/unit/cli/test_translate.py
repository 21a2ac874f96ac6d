"""`seqloom translate`: how hypotheses become lines."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from seqloom.cli.translate import _lines, _output
from seqloom.types import Hypothesis


def test_one_line_per_hypothesis_whatever_it_contains() -> None:
    hypotheses = [Hypothesis("a\nb", -1.0), Hypothesis("", -2.0), Hypothesis("c\u2028d", -3.0)]
    lines = list(_lines(1, "x", hypotheses, as_json=False))
    assert lines == ["a b", "", "c\u2028d"]  # only a line feed ends a line


def test_json_is_one_line_per_input_line() -> None:
    [line] = _lines(7, "ä", [Hypothesis("a\nb", -1.0), Hypothesis("c", -2.0)], as_json=True)
    assert "\n" not in line
    assert "ä" in line
    value = json.loads(line)
    assert (value["line"], value["source"]) == (7, "ä")
    assert [one["text"] for one in value["hypotheses"]] == ["a\nb", "c"]


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with _output(path) as write:
        write("ä\n")
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "ä\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with contextlib.suppress(ZeroDivisionError), _output(path) as write:
        write("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
