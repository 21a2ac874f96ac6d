"""`seqloom translate` writes one line per input line, even if there is no output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import run_command, run_process
from support.golden import GOLDEN, golden_run

LINES = ["the cat", "", "the dog ."]
MODES = [[], ["--nbest", "3"], ["--sample"], ["--sample", "--nbest", "2"], ["--mbr", "chrf"]]
MODES += [["--mbr", "bleu", "--beam", "4"], ["--mbr", "chrf", "--nbest", "2"]]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return str(tmp_path / "in.txt")


def run(*arguments: str) -> tuple[str, str]:
    """Return the standard output and the standard error of a command."""
    code, out, err = run_command(*arguments)
    assert code == 0, err
    return out, err


def strict_json(text: str) -> Any:
    """Return the parsed value; NaN and Infinity, which are not JSON, are errors."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_no_possible_hypothesis(file: str, mode: list[str]) -> None:
    command = ["translate", str(golden_run("hmm")), file, *mode, "--set", "search.min_length=9"]
    text, notes = run(*command)
    rows = [line.split("\t") for line in text.splitlines()]
    assert [row[-1] for row in rows] == [""] * len(LINES)
    if mode[-2:-1] == ["--nbest"]:
        assert [row[:2] for row in rows] == [["1", "-inf"], ["2", "0.0000"], ["3", "-inf"]]
    assert "2 of 3 outputs (impossible" in notes
    found = [strict_json(line) for line in run(*command, "--json")[0].splitlines()]
    assert [one["source"] for one in found] == LINES
    for line, (output,) in zip(LINES, (one["hypotheses"] for one in found), strict=True):
        assert output["text"] == ""
        assert output["flags"] == (["impossible"] if line else [])
        assert output["score"] == (None if line else 0)


def test_other_commands_write_json_without_possible_outputs(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("the cat\tNOUN NOUN NOUN\nthe dog\tDET NOUN\n", encoding="utf-8")
    found = strict_json(run("score", str(golden_run("hmm")), str(tmp_path / "pairs.tsv"), "--json")[0])
    assert found["log_prob"] is None
    assert [one["log_prob"] is None for one in found["worst"]] == [True, False]


@pytest.mark.parametrize(
    "command",
    [
        ["inspect", "search", str(golden_run("hmm")), "the cat", "--set", "search.min_length=9"],
        ["translate", str(golden_run("hmm")), "FILE", "--trace", "OUT", "--set", "search.min_length=9"],
    ],
    ids=["inspect search", "trace"],
)
def test_a_search_without_a_result_cannot_be_shown(file: str, tmp_path: Path, command: list[str]) -> None:
    places = {"FILE": file, "OUT": str(tmp_path / "tree.json")}
    done = run_command(*[places.get(part, part) for part in command])
    assert done.code == 2
    assert "No output for 'the cat' satisfies" in done.err
    assert not (tmp_path / "tree.json").exists()


def test_two_processes_write_the_same_as_one() -> None:
    """test_translators.py uses threads instead of processes; these are real processes."""
    command = ["translate", str(golden_run("transformer")), str(GOLDEN / "data/words.txt"), "--nbest", "2"]
    command += ["--engine", "torch", "--device", "cpu"]
    two = run_process(*command, "--processes", 2)
    assert two.code == 0, two.err
    assert two.out.count("\n") > 2
    assert two.out == run(*command)[0]
