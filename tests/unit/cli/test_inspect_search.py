"""`seqloom inspect search` and `seqloom translate --trace`: files, tables and errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from seqloom.run.load import load
from support.commands import Command

TEXT = "a man is running."
SHORT = ("--set", "search.longest=6")


def test_the_tree_as_json_html_and_figure(runs: Path, command: Command, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("tree.json", "tree.html", "tree.png")]
    for file in files:
        done = command("inspect", "search", runs / "pairs", TEXT, "--beam", 3, "--out", file, *SHORT)
        assert done.code == 0, done.err
    tree = json.loads(files[0].read_text(encoding="utf-8"))
    translator = load(runs / "pairs", search={"longest": 6})
    ((best,),) = translator.translate([TEXT], beam=3)
    assert (tree["answer"], tree["beam"]) == (best.text, 3)
    assert tree["score"] == pytest.approx(best.score, abs=1e-5)
    assert files[1].read_text(encoding="utf-8").startswith("<!doctype html>")
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_the_table_has_a_row_per_output_token(runs: Path, command: Command) -> None:
    told = command("inspect", "search", runs / "pairs", TEXT, *SHORT)
    tree = json.loads(command("inspect", "search", runs / "pairs", TEXT, "--json", *SHORT).out)
    rows = [line.split() for line in told.out.splitlines()]
    for one in tree["survival"]:
        assert any(row[:1] == [one["token"]] and f"{one['margin']:.2f}" in row for row in rows)
    assert sum("closest to being pruned" in line for line in told.out.splitlines()) == 1
    assert f"score {tree['score']:.4f}, beam 5" in told.out
    assert ("truncated at the maximum length" in told.out) == (not tree["finished"])


def test_an_output_can_start_with_a_prefix(runs: Path, command: Command) -> None:
    done = command("inspect", "search", runs / "pairs", TEXT, "--prefix", "TWO", "--json", *SHORT)
    assert json.loads(done.out)["answer"].startswith("TWO")


def test_search_errors_by_beam(runs: Path, command: Command, tmp_path: Path) -> None:
    lines = tmp_path / "some.txt"
    lines.write_text("a man\n\na dog\ntwo women\nsome men\n")
    asked = ("inspect", "search", runs / "pairs", "--errors", lines, "--beams", "5,1,5", "--limit", 4)
    options = ("--set", "search.longest=2", "--expand", 100)
    picture = tmp_path / "errors.png"
    told = json.loads(command(*asked, *options, "--json", "--out", picture).out)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (told["sentences"], told["proved"]) == (3, 3)
    assert [one["beam"] for one in told["beams"]] == [1, 5]
    table = command(*asked, *options).out
    assert "Search errors on 3 sentences" in table
    assert "The best output is known for 3 of 3 sentences" in table
    assert "≥" not in table
    short = " ".join(command(*asked, "--set", "search.longest=5", "--expand", 1).out.split())
    assert "≥ 0" in short and "known for 0 of 3 sentences, from expanding up to 1 hypotheses each" in short


def test_a_trace_has_the_search_of_every_line(runs: Path, command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    lines = f"{TEXT}\n\ntwo women\n"
    done = command("translate", runs / "pairs", "--trace", trace, "--beam", 3, *SHORT, given=lines)
    assert done.code == 0, done.err
    trees = json.loads(trace.read_text(encoding="utf-8"))
    assert [tree["line"] for tree in trees] == [1, 2, 3]
    assert [tree["answer"] for tree in trees] == done.out.split("\n")[:-1]
    assert [tree["source"] for tree in trees] == [TEXT, "", "two women"]
    assert [bool(tree["nodes"]) for tree in trees] == [True, False, True]
    assert ["attention" in tree for tree in trees] == [True, False, True]
    assert len(trees[0]["attention"]["weights"][0]) == 2  # heads of the only layer


def test_a_trace_respects_prefixes(runs: Path, command: Command, tmp_path: Path) -> None:
    table, trace = tmp_path / "begun.tsv", tmp_path / "trace.json"
    table.write_text(f"{TEXT}\tTWO\na dog\tSOME\n")
    done = command("translate", runs / "pairs", table, "--prefix-column", 2, "--trace", trace, *SHORT)
    assert done.code == 0, done.err
    assert [tree["answer"] for tree in json.loads(trace.read_text(encoding="utf-8"))] == done.out.splitlines()


def test_a_trace_of_many_lines_is_refused(runs: Path, command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = command("translate", runs / "pairs", "--trace", trace, given="a man\n" * 101)
    assert (done.code, done.out) == (2, "")
    assert "--trace accepts at most 100 lines" in done.err
    assert not trace.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample"], "--trace needs a beam search with one model"),
        (["--mbr", "chrf"], "--trace needs a beam search with one model"),
        (["--ensemble", "pairs"], "--trace needs a beam search with one model"),
        (["--engine", "ctranslate2"], "--trace needs --engine torch"),
        (["--trace", "nowhere/a.json"], "there is no folder"),
    ],
)
def test_searches_that_cannot_be_traced_are_errors(
    runs: Path, command: Command, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    done = command("translate", "pairs", "--trace", "trace.json", *options, given="a man\n")
    assert done.code == 2
    assert message in done.err
    assert not (runs / "trace.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give either a text or --errors FILE"),
        (["a", "--errors", "text.txt"], "Give either a text or --errors FILE"),
        ([" "], "The text is empty"),
        (["a", "--out", "tree.gif"], "cannot be written as .gif: tree.gif"),
        (["a", "--out", "tree"], "cannot be written as a file without suffix: tree"),
        (["a", "--out", "nowhere/tree.html"], "there is no folder"),
        (["a", "--heads", "2 1"], "'2 1' is not a dependency tree of 'a'"),
        (["a", "--set", "model.width=3"], "model.width"),
        (["a", "--set", "search.groups=2"], "search.groups=2 does not divide search.beam=5"),
        (["--errors", "text.txt", "--beams", "1,x"], "--beams must be a list of beam sizes, got '1,x'"),
        (["--errors", "text.txt", "--beams", "0"], "--beams must be a list of beam sizes, got '0'"),
        (["--errors", "text.txt", "--out", "a.html"], "cannot be written as .html"),
        (["a", "--style", "poster"], "no style called 'poster'"),
        (["--errors", "missing.txt"], "missing.txt"),
    ],
)
def test_user_errors(
    runs: Path, command: Command, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    done = command("inspect", "search", "pairs", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_figure_that_cannot_be_written_is_refused_before_any_work(
    runs: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("seqloom.run.load.load", None)
    assert "need matplotlib" in command("inspect", "search", runs / "pairs", "a", "--out", "tree.png").err
