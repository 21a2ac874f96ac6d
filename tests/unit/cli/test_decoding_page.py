"""The commands and the Python code of docs/guides/decoding.md run as written, with tiny models."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from seqloom.cli.main import app
from seqloom.run.config import compose
from support.commands import Command

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "decoding.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(bash|python)\n(.*?)```", PAGE, flags=re.DOTALL)
LINES = [line for kind, block in BLOCKS if kind == "bash" for line in block.splitlines()]
CODE = [block for kind, block in BLOCKS if kind == "python"]


@pytest.fixture
def here(runs: Path, lstm: Path, back: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with the runs and files that the page names."""
    (tmp_path / "runs").mkdir()
    for name, folder in (("mine", runs / "pairs"), ("lstm", lstm), ("back", back), ("lm", runs / "lm")):
        (tmp_path / "runs" / name).symlink_to(folder)
    (tmp_path / "input.txt").write_text("a man\n\n")
    few = "".join((runs / "pairs.tsv").read_text().splitlines(keepends=True)[:3])
    for name in ("valid.tsv", "test.tsv"):
        (tmp_path / name).write_text(few)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", [line for line in LINES if not line.startswith("seqloom train")])
def test_a_command_of_the_page_runs(line: str, here: Path, command: Command) -> None:
    program, *arguments = shlex.split(line.partition("  #")[0].partition(" > ")[0])
    assert program == "seqloom"
    done = command(*arguments)
    assert done.code == 0, f"{line}\n{done.err}"
    assert done.out


def test_the_models_of_the_page_are_trained_by_its_commands() -> None:
    trained = set()
    for line in LINES:
        if line.startswith("seqloom train"):
            context = get_command(app).commands["train"].make_context("train", line.split()[2:])  # type: ignore[attr-defined]
            compose(assignments=context.params["set_"] or [])
            trained.add(str(context.params["out"]))
    assert trained == set(re.findall(r"runs/\w+", PAGE))


@pytest.mark.parametrize("code", CODE)
def test_the_python_of_the_page_runs(code: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code, {})
    assert capsys.readouterr().out
