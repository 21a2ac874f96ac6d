"""`seqloom inspect stacks`: table, JSON and figure of one search; errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import Command

TEXT = "a man sits on a red bench."


def test_the_table_the_json_and_the_figure(phrase: Path, command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "stacks.png"
    told = command("inspect", "stacks", phrase, TEXT, "--out", picture)
    assert told.code == 0, told.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    data = json.loads(command("inspect", "stacks", phrase, TEXT, "--json").out)
    assert told.out.splitlines()[0] == data["answer"]
    assert f"score {data['score']:.4f}" in told.out
    assert command("translate", phrase, given=f"{TEXT}\n").out == f"{data['answer']}\n"
    rows = [line.split() for line in told.out.splitlines()]
    for stack in data["stacks"]:
        assert any(row[:2] == [str(stack["words"]), f"{stack['offered']:,}"] for row in rows)


def test_the_stack_size_can_be_set(phrase: Path, command: Command) -> None:
    data = json.loads(command("inspect", "stacks", phrase, TEXT, "--beam", 2, "--json").out)
    assert max(stack["kept"] for stack in data["stacks"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pairs", TEXT), "has no stacks"),
        (("phrase", " "), "The text is empty"),
        (("phrase", TEXT, "--out", "stacks.gif"), "cannot be written as .gif"),
        (("nothing", TEXT), "There is no run directory"),
    ],
)
def test_user_errors(phrase: Path, command: Command, arguments: tuple[str, ...], message: str) -> None:
    done = command("inspect", "stacks", phrase.parent / arguments[0], *arguments[1:])
    assert done.code == 2
    assert message in " ".join(done.err.split())
