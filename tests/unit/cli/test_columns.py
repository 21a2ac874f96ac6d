"""Column options of every command: one name, and an effect or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click import Command as ClickCommand
from typer.main import get_command

from seqloom.cli.main import app
from support.commands import Command

TICKETS = "id,english,german\n7,a man is running.,ein Mann\n8,a dog is here!,ein Hund\n"
OPTIONS = {
    "--source-column": ["train", "translate", "rerank", "evaluate", "align", "score", "evaluate-alignment"],
    "--target-column": ["train", "evaluate", "align", "score", "evaluate-alignment"],
    "--heads-column": ["translate", "evaluate", "score"],
}


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    (tmp_path / "tickets.csv").write_text(TICKETS)
    return tmp_path / "tickets.csv"


def command_of(*words: str) -> ClickCommand:
    found: Any = get_command(app)
    for word in words:
        found = found.commands[word]
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("option", OPTIONS)
def test_the_options_have_one_name_in_all_commands(option: str) -> None:
    commands = [command_of(name) for name in OPTIONS[option]]
    if option != "--heads-column":
        commands += [
            command_of("data", "check"),
            command_of("data", "show"),
            command_of("inspect", "alignment"),
        ]
    for command in commands:
        assert option in [name for parameter in command.params for name in parameter.opts]


def test_a_table_with_an_id_is_not_trained_without_named_columns(
    tickets: Path, tmp_path: Path, command: Command
) -> None:
    done = command("train", tickets, "--out", tmp_path / "run")
    assert done.code == 2
    assert "--source-column english --target-column german" in done.err
    only = command("train", tickets, "--out", tmp_path / "run", "--source-column", "english")
    assert only.code == 2
    assert "--target-column german" in only.err
    same = ("--source-column", "english", "--target-column", "english")
    assert command("train", tickets, "--out", tmp_path / "run", *same).code == 2
    assert not (tmp_path / "run").exists()


def test_named_columns_are_shown(tickets: Path, command: Command) -> None:
    done = command("data", "show", tickets, "--source-column", "english", "--target-column", "german")
    assert "a man is running." in done.out and "ein Mann" in done.out
    assert "english" not in done.out


@pytest.mark.parametrize("name", ["translate", "rerank"])
def test_the_former_name_has_the_same_effect(runs: Path, tickets: Path, name: str, command: Command) -> None:
    fixed = ("--lm", runs / "lm", "--weights", "0,0.1,0", "--nbest", 2) if name == "rerank" else ("--beam", 1)
    new = command(name, runs / "pairs", tickets, *fixed, "--source-column", "english", "--json")
    old = command(name, runs / "pairs", tickets, *fixed, "--column", "english", "--json")
    assert (new.code, new.out) == (0, old.out)
    assert '"a man is running."' in new.out


@pytest.mark.parametrize("column", ["7", "french"])
def test_a_column_that_is_not_there_is_an_error(
    runs: Path, tickets: Path, column: str, command: Command
) -> None:
    for option in ("--source-column", "--prefix-column", "--require-column"):
        done = command("translate", runs / "pairs", tickets, option, column)
        assert (done.code, done.out) == (2, "")
        assert f"no column '{column}'" in done.err
    done = command("translate", runs / "pairs", tickets, "--heads-column", column)
    assert (done.code, done.out) == (2, "")
    assert "does not support dependency trees" in done.err  # whatever the column


@pytest.mark.parametrize("option", ["--source-column", "--prefix-column", "--require-column", "--heads-column"])
def test_plain_text_has_no_columns(runs: Path, option: str, command: Command) -> None:
    done = command("translate", runs / "pairs", runs / "text.txt", option, "99")
    assert (done.code, done.out) == (2, "")
    assert option in done.err and "--format" in done.err
    assert command("translate", runs / "pairs", option, "1", given="a man\n").code == 2


def test_columns_of_text_files_are_an_error_in_every_command(
    runs: Path, tmp_path: Path, command: Command
) -> None:
    text = runs / "text.txt"
    both, named = ("--source", text, "--target", text), ("--source-column", "2")
    for arguments in (
        ("evaluate", runs / "pairs", *both),
        ("score", runs / "pairs", *both),
        ("score", runs / "lm", text),
        ("align", *both),
        ("inspect", "alignment", *both),
        ("inspect", "search", runs / "pairs", "a man"),
        ("inspect", "search", runs / "pairs", "--errors", text),
        ("data", "check", *both),
        ("data", "show", *both),
        ("train", *both, "--out", tmp_path / "run"),
        ("rerank", runs / "pairs", text, "--lm", runs / "lm", "--weights", "0,1,0"),
    ):
        done = command(*arguments, *named)
        assert done.code == 2, arguments
        assert "--source-column" in done.err, arguments
