"""--help: every command and option, readable at 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from seqloom.cli import commands, main
from seqloom.cli.help_text import HelpRow, help_text
from seqloom.decode.strategies import MinimumBayesRisk
from seqloom.run.config import from_tree
from support.commands import Command


def _leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its words, e.g. ("data", "check")."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, (*path, name))
        else:
            yield (*path, name), command


ROOT: Any = typer.main.get_command(main.app)
ALL = dict(_leaves(ROOT))
GROUPS: list[tuple[str, ...]] = [(), ("data",), ("inspect",), ("lab",), ("tune",)]


def helped(*words: str, columns: int = 80) -> str:
    command = ROOT
    for word in words:
        command = command.commands[word]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        text: str = command.get_help(typer.Context(command, info_name=" ".join(("seqloom", *words))))
    return text


def test_help_is_an_option_of_every_command(command: Command) -> None:
    for words in ([], ["data"], ["train"], ["data", "check"]):
        for option in ("-h", "--help"):
            code, out, err = command(*words, option)
            assert (code, err) == (0, "")
            assert out.startswith(" ".join(["Usage: seqloom", *words]))


def test_the_list_of_commands() -> None:
    names = {words[0] for words in ALL}
    assert names >= {"train", "resume", "translate", "evaluate", "demo", "models", "info", "data"}


def test_commands_are_grouped_by_topic() -> None:
    text = helped()
    topics = ["Train", "Use", "Evaluate", "Understand", "Data", "Exchange", "Options"]
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == topics
    for words in ALL:
        assert len(re.findall(rf"^  {words[0]}  ", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_every_command_has_a_summary_of_one_line(words: tuple[str, ...]) -> None:
    group = ROOT.commands[words[0]] if words else ROOT
    lines = helped(*words).splitlines()
    for name, command in group.commands.items():
        summary = command.help.partition("\n\n")[0]
        assert any(line.split() == [name, *summary.split()] for line in lines), f"{name} has a long summary"


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_option_is_described(words: tuple[str, ...]) -> None:
    text = helped(*words)
    for parameter in ALL[words].params:
        assert parameter.help, f"{parameter.name} has no help"
        if parameter.param_type_name == "option":
            assert (parameter.opts[0] in text.split()) != parameter.hidden
        else:
            assert (parameter.metavar or parameter.name.upper()) in text
    assert ALL[words].help


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("words", [*GROUPS, *ALL], ids=" ".join)
def test_help_fits_the_terminal(words: tuple[str, ...], columns: int) -> None:
    text = helped(*words, columns=columns)
    assert [line for line in text.splitlines() if len(line) > columns] == []
    assert "<" not in re.sub(r"<2\w\w>|<bt>", "", text)  # types such as <bool>
    assert "…" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_examples_are_printed_as_written(words: tuple[str, ...]) -> None:
    lines = helped(*words, columns=60).splitlines()
    for line in ALL[words].help.splitlines():
        assert not line.startswith("  ") or line in lines


def test_examples_use_existing_commands_and_options() -> None:
    examples = [line for command in ALL.values() for line in command.help.splitlines() if " seqloom " in line]
    lines = [line for line in examples if line.startswith("  ")]
    assert len(lines) > 30
    for line in lines:
        words = shlex.split(line.rpartition("seqloom ")[2])
        if words[0] == "tune" and words[1] != "search":
            words.insert(1, "training")  # which may be left out
        name = tuple(words[:2]) if words[0] in ("data", "inspect", "lab", "tune") else tuple(words[:1])
        known = {flag for parameter in ALL[name].params for flag in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def test_shown_defaults_are_those_of_the_configuration() -> None:
    train = {option.name: option.show_default for option in ALL["train",].params}
    config = from_tree({}, "")
    assert train["long"] == config.data.long
    sampling = MinimumBayesRisk.checked({"utility": "chrf"}, "strategy")
    for option in ALL["translate",].params:
        if option.name in ("temperature", "top_p", "min_p", "typical", "seed", "samples"):
            assert float(option.show_default) == getattr(sampling, option.name)
    assert sampling.top_k == 0


def test_layout() -> None:
    sections = {
        "Options": [HelpRow("--beam N", "Beam size. [default: 5]"), HelpRow("--a-very-long-option NAME", "B.")]
    }
    text = help_text("seqloom x RUN", "Do it at once.\n\nExample:\n  x  --beam 3", sections, columns=36)
    assert text == (
        "Usage: seqloom x RUN\n"
        "\n"
        "Do it at once.\n"
        "\n"
        "Example:\n"
        "  x  --beam 3\n"
        "\n"
        "Options:\n"
        "  --beam N  Beam size. [default: 5]\n"
        "  --a-very-long-option NAME\n"
        "            B.\n"
    )


def test_text_is_wrapped_between_words_only() -> None:
    rows = {"Options": [HelpRow("--set", "An option, e.g. search.length_penalty=0.6 or --no-agree.")]}
    lines = help_text("x", "", rows, columns=40).splitlines()
    assert "         search.length_penalty=0.6 or" in lines
    assert "         --no-agree." in lines


@pytest.mark.parametrize(
    ("variables", "bold"), [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)]
)
def test_headings_are_bold_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], bold: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (commands._bold("Options:") != "Options:") == bold
