"""`seqloom inspect hmm`: states of a text as table, JSON and figure; errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqloom.run import train as pipeline
from support.commands import Command

PAIRS = ("the man can fish\tD N X V", "the can is old\tD N X A", "the fish can swim\tD N X V")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Path:
    """Folder with the runs `tags` and `text`."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "tags.tsv").write_text("".join(f"{pair}\n" for pair in PAIRS * 4), encoding="utf-8")
    (folder / "text.txt").write_text(
        "".join(f"{pair.split(chr(9))[0]}\n" for pair in PAIRS * 4), encoding="utf-8"
    )
    pipeline.train(folder / "tags.tsv", out=folder / "tags", model="hmm", quiet=True)
    pipeline.train(folder / "text.txt", out=folder / "text", model="hmm-lm", size="tiny", quiet=True)
    return folder


def test_the_tags_of_a_text(folder: Path, command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    done = command("inspect", "hmm", folder / "tags", "the zebra can fish", "--out", picture, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["tokens"] == ["the", "zebra", "can", "fish"]
    assert told["path"] == ["D", "N", "X", "V"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = command("inspect", "hmm", folder / "tags", "the zebra can fish").out
    assert "zebra" in table and f"log P(path | text) = {told['log_prob']:.4f}" in table


def test_the_states_of_a_language_model(folder: Path, command: Command) -> None:
    told = json.loads(command("inspect", "hmm", folder / "text", "the man can swim", "--json").out)
    assert told["tokens"] == ["the", "man", "can", "swim", "</s>"]
    assert len(told["states"]) == 8 and told["states"][0].startswith("1: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tags", ""), "text has no words"),
        (("tags", "a", "--out", "a.gif"), "cannot be written as .gif"),
        (("tags", "a", "--out", "nowhere/a.png"), "there is no folder"),
        (("missing", "a"), "There is no run directory missing"),
    ],
)
def test_user_errors(
    arguments: tuple[str, ...], message: str, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = command("inspect", "hmm", *arguments)
    assert done.code == 2 and message in done.err


def test_a_model_without_hidden_states(runs: Path, command: Command) -> None:
    done = command("inspect", "hmm", runs / "lm", "a man")
    assert done.code == 2 and "has no hidden states" in done.err
