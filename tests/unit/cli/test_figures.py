"""Behaviour shared by all commands that draw figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from typer.main import get_command

from seqloom.cli.main import app
from support.commands import Command


def _commands(command: Command, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the options of every command by its name."""
    if hasattr(command, "commands"):
        for inner in command.commands.values():
            yield from _commands(inner, f"{name} {inner.name}".strip())
    else:
        yield name, {option.name: option for option in command.params}


def test_every_command_that_draws_has_the_same_style_option() -> None:
    options = dict(_commands(get_command(app)))
    numbers = ("translation", "alternatives", "curves", "influence", "layers", "intervention", "embeddings")
    pages = {f"inspect {name}" for name in numbers}  # no matplotlib figure
    inspects = {name for name in options if name.startswith("inspect ")} - pages
    draws = {name for name, own in options.items() if "plot" in own} | inspects | {"demo"}
    assert len(draws) == 16
    assert {name for name, own in options.items() if "style" in own} == draws
    assert len({(options[name]["style"].help, options[name]["style"].default) for name in draws}) == 1


def test_a_slide_is_sixteen_to_nine(runs: Path, command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    done = command(
        "inspect", "attention", runs / "pairs", "a man", "--mean", "--out", picture, "--style", "slide"
    )
    assert done.code == 0, done.err
    height, width = imread(picture).shape[:2]
    assert width / height == pytest.approx(16 / 9, abs=0.01)


def test_characters_without_a_font_are_a_warning(runs: Path, command: Command, tmp_path: Path) -> None:
    done = command("inspect", "attention", runs / "pairs", "a 𓀀 𓀁", "--mean", "--out", tmp_path / "a.png")
    assert done.code == 0
    (line,) = (line for line in done.err.splitlines() if line.startswith("warning:"))
    assert "No installed font has the characters 𓀀𓀁" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "{}/pairs", "--plot", "{}/a.png"),
        ("score", "{}/lm", "{}/text.txt", "--plot", "{}/a.png"),
        ("data", "check", "{}/pairs.tsv", "--plot", "{}/a.png"),
        ("evaluate", "{}/pairs", "{}/pairs.tsv", "--plot", "{}/a.png"),
    ],
)
def test_an_unknown_style_is_refused_before_any_work(
    runs: Path, command: Command, arguments: tuple[str, ...]
) -> None:
    done = command(*(one.format(runs) for one in arguments), "--style", "poster")
    assert (done.code, done.out) == (2, "")
    assert "no style called 'poster'" in done.err
    assert not (runs / "a.png").exists()
