"""`seqloom translate`: from hypotheses to output lines."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest

from seqloom.cli.output import write_json_line
from seqloom.cli.translate import _as_dict, _plain
from seqloom.types import Hypothesis
from support.commands import Command


def test_one_line_per_hypothesis_whatever_it_contains() -> None:
    hypotheses = [Hypothesis("a\nb", -1.0), Hypothesis("", -2.0), Hypothesis("c\u2028d", -3.0)]
    lines = list(_plain(1, hypotheses, ranked=False))
    assert lines == ["a b\n", "\n", "c\u2028d\n"]  # only a line feed ends a line


def test_several_outputs_follow_the_line_number_and_the_score() -> None:
    lines = list(_plain(7, [Hypothesis("a", -1.0), Hypothesis("", -2.5)], ranked=True))
    assert lines == ["7\t-1.0000\ta\n", "7\t-2.5000\t\n"]


def test_json_is_one_line_per_input_line() -> None:
    hypotheses = [Hypothesis("a\nb", -1.0), Hypothesis("c", -math.inf, flags=("cut",))]
    stream = io.StringIO()
    write_json_line(stream, _as_dict(7, "ä", hypotheses, "torch"))
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert "ä" in line
    value = json.loads(line)
    assert (value["line"], value["source"]) == (7, "ä")
    assert [one["text"] for one in value["hypotheses"]] == ["a\nb", "c"]
    assert [one["flags"] for one in value["hypotheses"]] == [[], ["cut"]]
    assert [one["score"] for one in value["hypotheses"]] == [-1.0, None]  # JSON has no infinity


def test_a_far_too_short_output_is_flagged_by_the_ratio_of_the_run(runs: Path, command: Command) -> None:
    document = "a man is running. " * 50
    done = command("translate", runs / "pairs", "--json", "--set", "search.longest=3", given=f"{document}\n")
    assert done.code == 0, done.err
    assert "short" in json.loads(done.out)["hypotheses"][0]["flags"]
    assert "(short: " in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("--nbest", 2),
        ("--set", "search.nbest=2"),
        ("--strategy", "beam", "--set", "strategy.nbest=2"),
        ("--strategy", "sample", "--set", "strategy.samples=2"),
    ],
)
def test_several_outputs_are_numbered_for_every_option(
    runs: Path, command: Command, words: tuple[object, ...]
) -> None:
    done = command("translate", runs / "pairs", *words, "--set", "search.longest=3", given="a man\na dog\n")
    assert done.code == 0, done.err
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["1", "1", "2", "2"]


def test_a_phrase_model_fills_a_long_n_best_list(command: Command) -> None:
    phrase = Path(__file__).parents[2] / "golden" / "fixtures" / "phrase"
    done = command("translate", phrase, "--nbest", 80, given="the old cat hides the dog .\n")
    assert (done.code, len(done.out.splitlines())) == (0, 80), done.err
    refused = command("translate", phrase, "--nbest", 80, "--beam", 7, given="the cat\n")
    assert (refused.code, "set search.beam to 80 or more" in refused.err) == (2, True)
