from __future__ import annotations

from typing import Any

import pytest
import typer

from seqloom.cli.main import app
from seqloom.errors import SeqloomError
from seqloom.run.config import from_tree, option_names
from seqloom.suggestions import FOREIGN_NAMES, suggest
from support.commands import Command


def _flags(command: Command) -> set[str]:
    commands = getattr(command, "commands", {}).values()
    return {flag for option in command.params for flag in option.opts}.union(*map(_flags, commands))


def test_every_suggested_option_exists() -> None:
    known = {*option_names(), *_flags(typer.main.get_command(app))}
    assert [option for option in FOREIGN_NAMES if option.replace("=", " ").split()[0] not in known] == []


def test_every_foreign_name_suggests_its_option() -> None:
    for option, names in FOREIGN_NAMES.items():
        known = [option.replace("=", " ").split()[0]]
        for name in names.split():
            assert suggest(f"--{name.replace('_', '-')}", known) == [option]


@pytest.mark.parametrize("option", [option for option in FOREIGN_NAMES if option.startswith("train.")])
def test_suggested_values_are_valid(option: str) -> None:
    name, _, value = option.removeprefix("train.").partition("=")
    if value and not value.isupper():  # TOKENS is for the user to replace
        assert str(getattr(from_tree({"train": {name: value}}, "").train, name)) == value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("max_minutes", ["train.max_minutes"]),  # exact, in another section
        ("seed", ["--seed"]),  # a flag before an option of --set
        ("Beam-Size", ["--beam"]),  # a foreign name
        ("max_length", ["data.max_length", "model.max_length"]),  # several
        ("learning_rat", ["train.learning_rate"]),  # a typing error
        ("train.learning_rat", ["train.learning_rate"]),
        ("xyzzy", []),
    ],
)
def test_suggestions(name: str, expected: list[str]) -> None:
    flags = ["--beam", "--seed", "--out"]
    others = ["train.max_minutes", "train.seed", "data.max_length", "model.max_length", "train.learning_rate"]
    assert suggest(name, flags, others) == expected


@pytest.mark.parametrize(
    ("tree", "hint"),
    [
        ({"max_minutes": 3}, "train.max_minutes"),
        ({"epochs": 3}, "train.max_epochs"),
        ({"train": {"dropout": 0.1}}, "model.dropout"),
        ({"train": {"lr": 0.1}}, "train.learning_rate"),
        ({"model": {"num_layers": 3}}, "model.layers"),
        ({"model": {"vocab_size": 3}}, "text.vocab_size"),
        ({"data": {"noise": {"knd": "mask"}}}, "data.noise.kind"),
        ({"xyzzy": {}}, "train"),
    ],
)
def test_an_unknown_option_of_a_configuration_suggests_another(tree: dict[str, Any], hint: str) -> None:
    with pytest.raises(SeqloomError, match="There is no option") as caught:
        from_tree(tree, "options.yaml")
    assert hint in caught.value.hint
