"""`seqloom fill`: output and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli.fill import _plain
from seqloom.decode.mask_filling import Candidate, Filled
from support.commands import Command


def test_a_filled_text_and_a_line_per_gap() -> None:
    filled = Filled("a b c", ((Candidate("a", 0.5), Candidate("x", 0.25)), (Candidate("c", 0.001),)))
    assert _plain(filled) == "a b c\n  a 50.0 %   x 25.0 %\n  c 0.1 %"


def test_texts_may_be_arguments_a_file_or_standard_input(runs: Path, command: Command, tmp_path: Path) -> None:
    texts = ["a [MASK] is here.", "[MASK] man, two [MASK]"]
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts))
    given = "\n".join(texts)
    done = command("fill", runs / "mlm", *texts)
    assert done.code == 0
    assert len(done.out.splitlines()) == 2 + 3
    assert "[MASK]" not in done.out
    assert done.out.startswith("a ") and done.out.splitlines()[0].endswith(" is here.")
    assert command("fill", runs / "mlm", "--file", tmp_path / "texts.txt").out == done.out
    assert command("fill", runs / "mlm", given=given).out == done.out


def test_json_has_the_candidates_of_every_gap(runs: Path, command: Command) -> None:
    done = command("fill", runs / "mlm", "a [MASK] [MASK].", "the [MASK]", "--json", "--top", 3)
    first, second = map(json.loads, done.out.splitlines())
    assert first["text"] == "a [MASK] [MASK]."
    assert [len(gap) for gap in first["gaps"]] == [3, 3]
    best = [gap[0]["token"] for gap in first["gaps"]]
    assert first["filled"] == f"a {' '.join(best)}."
    probabilities = [candidate["probability"] for candidate in second["gaps"][0]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) < 1


@pytest.mark.parametrize(
    "run, arguments, fragments",
    [
        ("lm", ("a [MASK]",), ("(lm) continues a text; it does not fill gaps", "seqloom generate")),
        ("pairs", ("a [MASK]",), ("(prefix-lm) translates; it does not fill gaps", "seqloom translate")),
        ("mlm", ("a [MASK]", "a man"), ("Text 2 does not contain [MASK]", "A man is [MASK] a guitar.")),
        ("mlm", ("a [MASK]", "--file", "x"), ("--file", "leave one")),
        ("mlm", ("--file", "nowhere.txt"), ("The file nowhere.txt does not exist", "check the path")),
    ],
)
def test_impossible_requests_are_errors(
    runs: Path, command: Command, run: str, arguments: tuple[Any, ...], fragments: tuple[str, ...]
) -> None:
    done = command("fill", runs / run, *arguments)
    assert (done.code, done.out) == (2, "")
    for fragment in fragments:
        assert fragment in done.err
