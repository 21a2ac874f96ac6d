"""`seqloom generate`: output and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli.generate import _plain
from seqloom.types import Hypothesis
from support.commands import Command


def test_texts_are_lines_that_begin_with_the_prompt(runs: Path, command: Command) -> None:
    done = command("generate", runs / "lm", "a man", "--max-length", 12)
    lines = done.out.splitlines()
    assert (done.code, len(lines)) == (0, 5)
    assert all(line.startswith("a man") for line in lines)
    assert len(set(lines)) > 1
    assert command("generate", runs / "lm", "a man", "--max-length", 12).out == done.out
    assert command("generate", runs / "lm", "a man", "--max-length", 12, "--seed", 2).out != done.out


def test_without_a_prompt_the_text_starts_empty(runs: Path, command: Command) -> None:
    assert len(command("generate", runs / "lm", "--count", 2, "--max-length", 8).out.splitlines()) == 2


@pytest.mark.parametrize("options", [("--beam", 3), ("--temperature", 0)])
def test_greedy_and_beam_search_give_one_text(runs: Path, command: Command, options: tuple[Any, ...]) -> None:
    done = command("generate", runs / "lm", "a", "--max-length", 8, *options)
    assert (done.code, len(done.out.splitlines())) == (0, 1)


def test_a_beam_search_gives_the_requested_number_of_texts(runs: Path, command: Command) -> None:
    done = command("generate", runs / "lm", "a", "--max-length", 8, "--beam", 3, "--count", 3)
    assert len(set(done.out.splitlines())) == 3


def test_the_filters_reach_the_sampler(runs: Path, command: Command) -> None:
    greedy = command("generate", runs / "lm", "a", "--max-length", 8, "--temperature", 0).out.splitlines()
    for option in (("--top-k", 1), ("--top-p", 1e-9), ("--min-p", 1), ("--temperature", 1e-4)):
        done = command("generate", runs / "lm", "a", "--max-length", 8, *option)
        assert done.out.splitlines() == 5 * greedy, option
    typical = command("generate", runs / "lm", "a", "--max-length", 8, "--typical", 1e-9).out.splitlines()
    assert len(set(typical)) == 1


def test_prompts_of_a_file_are_numbered(runs: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("a man\n\ntwo\n")
    for file, given in ((tmp_path / "prompts.txt", ""), ("-", "a man\n\ntwo\n")):
        done = command("generate", runs / "lm", "--file", file, "--count", 2, "--max-length", 9, given=given)
        rows = [line.split("\t") for line in done.out.splitlines()]
        assert [number for number, _ in rows] == ["1", "1", "2", "2", "3", "3"]
        assert all(text.startswith("a man") for number, text in rows if number == "1")


def test_json_has_the_scores_of_the_continuation(runs: Path, command: Command) -> None:
    done = command("generate", runs / "lm", "a man", "--json", "--count", 2, "--max-length", 9)
    (line,) = done.out.splitlines()
    answer = json.loads(line)
    assert (answer["prompt"], len(answer["texts"])) == ("a man", 2)
    for text in answer["texts"]:
        assert text["log_prob"] == pytest.approx(sum(text["token_log_probs"]))
        assert len(text["token_log_probs"]) == len(text["tokens"]) + text["finished"]


def test_a_truncated_text_is_marked_and_stays_one_line() -> None:
    hypotheses = [Hypothesis("a\nb", -1.0), Hypothesis("c", -1.0, finished=False)]
    assert list(_plain(hypotheses, None)) == ["a b", "c …"]
    assert list(_plain(hypotheses, 7)) == ["7\ta b", "7\tc …"]


@pytest.mark.parametrize(
    "run, arguments, fragments",
    [
        ("mlm", ("a",), ("(mlm) fills gaps in a text; it does not continue a text", "seqloom fill")),
        ("pairs", ("a",), ("(prefix-lm) translates; it does not continue a text", "seqloom translate")),
        ("restore", ("a",), ("(transformer) translates", "seqloom translate")),
        ("lm", ("a", "--beam", 2, "--top-p", 0.5), ("--top-p", "leave one")),
        ("lm", ("a", "--beam", 2, "--count", 3), ("--count 3 is larger than --beam 2", "increase --beam")),
        ("lm", ("a", "--file", "x"), ("--file", "leave one")),
        ("lm", ("--file", "nowhere.txt"), ("The file nowhere.txt does not exist", "check the path")),
        ("lm", ("a man", "--max-length", 1), ("The prompt has", "--max-length")),
        ("lm", ("a", "--top-p", 2), ("sampling.top_p", "less than or equal to 1")),
        ("lm", ("a", "--temperature", 0, "--count", 2), ("the same output 2 times",)),
        ("nowhere", (), ("There is no run directory", "seqloom train")),
    ],
)
def test_impossible_requests_are_errors(
    runs: Path, command: Command, run: str, arguments: tuple[Any, ...], fragments: tuple[str, ...]
) -> None:
    done = command("generate", runs / run, *arguments)
    assert (done.code, done.out) == (2, "")
    for fragment in fragments:
        assert fragment in done.err


def test_search_options_apply_or_are_refused(runs: Path, command: Command) -> None:
    given = ("generate", runs / "lm", "a", "--max-length", 12, "--temperature", 0)
    free, bound = command(*given), command(*given, "--set", "search.no_repeat=1")
    assert free.code == bound.code == 0 and free.out != bound.out
    refused = command(*given, "--set", "search.require=man")
    assert refused.code == 2 and "does not support search.require" in refused.err
    assert command(*given, "--set", "train.max_steps=3").code == 2
