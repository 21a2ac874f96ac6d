"""`--import`: a model in a user's file is trained and used by every command, and only on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom import registry
from seqloom.cli.user_modules import imports_first
from seqloom.registry import architectures
from support.commands import Command, run_process
from support.configs import TINY, flags
from support.runs import write_digits

MODEL = """
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.registry import register


class OwnSettings(TransformerSettings):
    name: str = "own"


@register("own", summary="a model of the user", paper="none", settings=OwnSettings)
class Own(Transformer):
    def step_hidden(self, memory, state, last):
        hidden, state, attention = super().step_hidden(memory, state, last)
        return 2 * hidden, state, attention
"""
OPTIONS = flags({**TINY, "text.tokenizer": "char", "train.max_steps": 2})


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Registry without user models; a call forgets everything imported since."""
    ours = {name: entry for name, entry in architectures().items() if entry.home is None}

    def forgotten() -> None:
        monkeypatch.setattr(registry, "_ARCHITECTURES", dict(ours))
        monkeypatch.setattr(registry, "_IMPORTED", set())

    monkeypatch.setattr(sys, "path", list(sys.path))
    forgotten()
    return forgotten


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_model.py").write_text(MODEL)
    write_digits(tmp_path / "pairs.tsv")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("train a --import m.py --out x", "--import m.py train a --out x"),
        ("--import m.py train", "--import m.py train"),
        ("train --import=m.py --import n.py", "--import=m.py --import n.py train"),
        ("train -- --import m.py", "train -- --import m.py"),
        ("import folder --out x", "import folder --out x"),
    ],
)
def test_imports_come_before_the_command(words: str, expected: str) -> None:
    assert imports_first(words.split()) == expected.split()


def test_a_user_model_works_in_every_command(
    folder: Path, command: Command, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command("--import", "own_model.py", "train", "pairs.tsv", "--model", "own", "--out", "run", *OPTIONS)
    assert done.code == 0, done.err
    assert "seqloom translate run --import own_model.py FILE" in done.out
    assert json.loads((folder / "run" / "import.json").read_text())["file"] == "own_model.py"
    expected = command("translate", "run", "--beam", "2", given="1 2\n")
    assert expected.code == 0, expected.err
    forget()
    refused = command("translate", "run", given="1 2\n")
    assert refused.code == 2
    assert "defined in the file 'own_model.py', which is not imported" in refused.err
    assert "seqloom --import own_model.py" in refused.err
    again = command("translate", "run", "--beam", "2", "--import", "own_model.py", given="1 2\n")
    assert (again.code, again.out) == (0, expected.out)
    forget()
    monkeypatch.setenv("SEQLOOM_IMPORT", str(folder / "own_model.py"))
    assert command("resume", "run").code == 0
    assert "own" in [row["name"] for row in json.loads(command("models", "--json").out)]


def test_a_user_model_is_never_computed_as_its_base_class(
    folder: Path, command: Command, forget: Callable[[], None]
) -> None:
    trained = command("train", "pairs.tsv", "--import=own_model.py", "--model", "own", "--out", "run", *OPTIONS)
    assert trained.code == 0, trained.err
    found = json.loads(command("translate", "run", "--json", given="1 2\n").out)
    assert found["engine"] == "torch"
    for words in (
        ("translate", "run", "--engine", "ctranslate2"),
        ("export", "run", "--to", "ctranslate2", "--out", "a"),
        ("export", "run", "--to", "hf-marian", "--out", "b"),
    ):
        refused = command(*words, given="1 2\n")
        assert refused.code == 2
        assert "model.name=own" in refused.err


def test_a_run_of_seqloom_records_no_file(runs: Path) -> None:
    assert not (runs / "pairs" / "import.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [(("missing.py",), "There is no file missing.py"), ((), "--import needs a file")],
)
def test_a_missing_file_is_an_error(
    command: Command, forget: Callable[[], None], words: tuple[str, ...], message: str
) -> None:
    refused = command("models", "--import", *words)
    assert refused.code == 2
    assert message in refused.err


def test_all_processes_import_the_file(folder: Path) -> None:
    words = ["train", "pairs.tsv", "--import", "own_model.py", "--model", "own", "--out", "run", *OPTIONS]
    done = run_process(*words, "--processes", 2)
    assert done.code == 0, done.err
    assert (folder / "run" / "checkpoints" / "best").exists()
