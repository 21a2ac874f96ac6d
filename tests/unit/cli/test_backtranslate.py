"""`seqloom backtranslate`: synthetic pairs from target text, with and without an interruption."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from seqloom.decode.strategies import BeamSearch, Sampling, Strategy
from seqloom.distillation import translation
from support.commands import Command
from support.golden import golden_run
from support.runs import write_lines

REVERSE = golden_run("transformer")
LINES = ["the cat sees the dog .", "the dog likes the house .", "", "the tree sees the cat .", "the cat"] * 3


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "mono.txt", LINES)


def interrupt(monkeypatch: pytest.MonkeyPatch, strategy: type[Strategy], chunk: int) -> Callable[[], None]:
    """Make a command stop at a chunk as by Ctrl-C; return a function that ends this."""
    translate, calls = strategy.translate, []

    def stop_at_chunk(self: Any, translator: Any, requests: Sequence[Any], **options: Any) -> Any:
        calls.append(requests)
        if len(calls) == chunk:
            raise KeyboardInterrupt
        return translate(self, translator, requests, **options)

    monkeypatch.setattr(strategy, "translate", stop_at_chunk)
    return lambda: monkeypatch.setattr(strategy, "translate", translate)


def test_pairs_are_output_and_line_in_the_order_of_the_lines(
    text: Path, tmp_path: Path, command: Command
) -> None:
    done = command("backtranslate", REVERSE, text, "--out", tmp_path / "s.tsv", "--tag", "<bt>", "--beam", 2)
    assert done.code == 0, done.err
    translated = command("translate", REVERSE, text, "--beam", 2).out.splitlines()
    expected = [f"<bt> {output}\t{line}" for output, line in zip(translated, LINES, strict=True) if line]
    assert (tmp_path / "s.tsv").read_text().splitlines() == expected
    assert "12 of 15 lines kept (3 empty line)" in done.out
    assert f"seqloom train real.tsv {tmp_path}/s.tsv --set 'data.weights=[1,1]'" in done.out
    report = json.loads((tmp_path / "s.tsv.report.json").read_text())
    assert (report["pairs"], report["settings"]["tag"]) == (12, "<bt>")
    assert [line["line"] for line in report["lines"]["lines"]] == [3, 8, 13]
    assert not (tmp_path / "s.tsv.unfinished").exists()


@pytest.mark.parametrize(
    ("strategy", "words"), [(BeamSearch, ()), (Sampling, ("--sample", "--seed", 3, "--temperature", 2))]
)
def test_an_interruption_does_not_change_the_output(
    text: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    strategy: type[Strategy],
    words: tuple[object, ...],
) -> None:
    monkeypatch.setattr(translation, "CHUNK_LINES", 4)
    whole, parts = tmp_path / "whole.tsv", tmp_path / "parts.tsv"
    assert command("backtranslate", REVERSE, text, "--out", whole, *words).code == 0
    resume = interrupt(monkeypatch, strategy, chunk=3)
    assert command("backtranslate", REVERSE, text, "--out", parts, *words).code == 130
    unfinished = tmp_path / "parts.tsv.unfinished"
    unfinished.write_bytes(unfinished.read_bytes()[:-5])  # and the machine has crashed while writing
    assert not parts.exists()
    resume()
    done = command("backtranslate", REVERSE, text, "--out", parts, *words)
    assert (done.code, "4 of 15 lines are already translated" in done.err) == (0, True), done.err
    assert parts.read_bytes() == whole.read_bytes()
    reports = [json.loads(file.with_name(f"{file.name}.report.json").read_text()) for file in (whole, parts)]
    assert reports[0]["lines"] == reports[1]["lines"]


def test_other_options_cannot_continue_interrupted_work(
    text: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation, "CHUNK_LINES", 4)
    resume = interrupt(monkeypatch, BeamSearch, chunk=2)
    out = tmp_path / "s.tsv"
    assert command("backtranslate", REVERSE, text, "--out", out).code == 130
    resume()
    other = command("backtranslate", REVERSE, text, "--out", out, "--tag", "<bt>")
    assert (other.code, "other settings: tag" in other.err, "s.tsv.unfinished" in other.err) == (2, True, True)
    write_lines(text, LINES[1:])
    changed = command("backtranslate", REVERSE, text, "--out", out)
    assert (changed.code, "other settings: sha256" in changed.err) == (2, True)


def test_suspicious_outputs_are_dropped_and_reported(tmp_path: Path, text: Path, command: Command) -> None:
    options = ("--set", "search.longest=6", "--json")  # an output that reaches this length is cut
    done = command("backtranslate", REVERSE, text, "--out", tmp_path / "s.jsonl", *options)
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["lines"]["counts"] == {"suspicious output: cut": 9, "empty line": 3}
    translated = map(json.loads, command("translate", REVERSE, text, *options).out.splitlines())
    best = [(line["source"], line["hypotheses"][0]) for line in translated]
    expected = [(one["text"], source) for source, one in best if source and not one["flags"]]
    pairs = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert [(pair["source"], pair["target"]) for pair in pairs] == expected
    assert len(expected) == 3
    assert report == json.loads((tmp_path / "s.jsonl.report.json").read_text())


def test_nothing_is_written_if_no_pair_is_left(tmp_path: Path, text: Path, command: Command) -> None:
    out = tmp_path / "s.tsv"
    done = command("backtranslate", REVERSE, text, "--out", out, "--set", "search.longest=1")
    assert (done.code, "No pair is left" in done.err, out.exists()) == (2, True, False)


def test_a_column_of_a_table_can_be_the_text(tmp_path: Path, command: Command) -> None:
    table = write_lines(tmp_path / "mono.tsv", [f"{i}\t{line}" for i, line in enumerate(LINES)])
    done = command("backtranslate", REVERSE, table, "--column", 2, "--out", tmp_path / "s.tsv")
    assert done.code == 0, done.err
    targets = [line.split("\t")[1] for line in (tmp_path / "s.tsv").read_text().splitlines()]
    assert targets == [line for line in LINES if line]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mono.txt", "--out", "s.csv"), "must end in .tsv or .jsonl"),
        (("mono.txt", "--out", "s.tsv.gz"), "must end in .tsv or .jsonl"),
        (("mono.txt", "--out", "none/s.tsv"), "there is no folder"),
        (("mono.txt", "--out", "s.tsv", "--tag", "bt"), "angle brackets"),
        (("mono.txt", "--out", "s.tsv", "--tag", "<s>"), "angle brackets"),
        (("mono.txt", "--out", "s.tsv", "--column", "2"), "not a table"),
        (("mono.txt", "--out", "s.tsv", "--seed", "2"), "no effect on a beam search"),
        (("mono.txt", "--out", "s.tsv", "--engine", "fast"), "no engine called 'fast'"),
        (("-", "--out", "s.tsv"), "Standard input can be read only once"),
        (("missing.txt", "--out", "s.tsv"), "no file missing.txt"),
        (("mono.txt", "--out", "fifo.tsv"), "not a regular file"),
    ],
)
def test_user_errors(
    text: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "fifo.tsv" in words:
        os.mkfifo("fifo.tsv")
    done = command("backtranslate", REVERSE, *words)
    assert (done.code, message in done.err) == (2, True), done.err
    assert {path.name for path in tmp_path.iterdir()} <= {"mono.txt", "fifo.tsv"}


def test_the_text_needs_a_run_that_translates(tmp_path: Path, text: Path, command: Command) -> None:
    done = command("backtranslate", golden_run("lm"), text, "--out", tmp_path / "s.tsv")
    assert (done.code, "does not translate" in done.err) == (2, True)
