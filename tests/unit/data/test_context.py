"""`data.context`: previous sources before each source, in training, translation, evaluation and scoring."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.data.testset import read_testset
from seqloom.errors import SeqloomError
from support.commands import run_command
from support.configs import TINY_TRANSFORMER
from support.runs import train_run, write_lines

TURNS = ["a\tA", "b\tB", "c\tC", "", "d\tD", "no target", "e\tE", "\tF", "f\tF", "g\tG"]
# The empty line, the malformed one and the empty source begin a new conversation.
WITH_ONE = ["a", "a <sep> b", "b <sep> c", "d", "e", "f", "f <sep> g"]
WITH_MANY = ["a", "a <sep> b", "a <sep> b <sep> c", "d", "e", "f", "f <sep> g"]


def sources(**options: object) -> list[str]:
    config = DataConfig.model_validate(options)
    return [one.source for one in read_corpus(config, "train", DataReport()) if one.source]


@pytest.mark.parametrize(("context", "expected"), [(1, WITH_ONE), (9, WITH_MANY)])
def test_previous_sources_of_a_conversation_come_first(
    context: int, expected: list[str], tmp_path: Path
) -> None:
    table = write_lines(tmp_path / "turns.tsv", TURNS)
    assert sources(train=str(table), context=context) == expected


def test_without_context_sources_are_unchanged(tmp_path: Path) -> None:
    table = write_lines(tmp_path / "turns.tsv", TURNS)
    assert sources(train=str(table)) == ["a", "b", "c", "d", "e", "f", "g"]


def test_formats_have_the_same_context(tmp_path: Path) -> None:
    """Records of several lines do not end a conversation."""
    rows = [("a", "A\nA"), ("b", "B"), ("", ""), ("c", "C"), ("d", "D")]
    expected = ["a", "a <sep> b", "c", "c <sep> d"]
    write_lines(tmp_path / "t.csv", ["source,target", *(f'{a},"{b}"' if a else "" for a, b in rows)])
    write_lines(tmp_path / "t.jsonl", (json.dumps({"source": a, "target": b}) if a else "" for a, b in rows))
    write_lines(tmp_path / "t.src", (a for a, _ in rows))
    write_lines(tmp_path / "t.tgt", (b.replace("\n", " ") for _, b in rows))
    csv = {"source_column": "source", "target_column": "target"}
    assert sources(train=str(tmp_path / "t.csv"), context=2, **csv) == expected
    assert sources(train=str(tmp_path / "t.jsonl"), context=2) == expected
    assert sources(source=str(tmp_path / "t.src"), target=str(tmp_path / "t.tgt"), context=2) == expected


def test_a_test_set_has_the_context_of_the_training_data(tmp_path: Path) -> None:
    table = write_lines(tmp_path / "test.tsv", ["a\tA", "b\tB"])
    test = read_testset(DataConfig(context=3), [str(table)])
    assert (test.sources, test.references) == (["a", "a <sep> b"], [["A"], ["B"]])
    files = [write_lines(tmp_path / name, name) for name in ("ab", "cd")]
    test = read_testset(DataConfig(context=3), [], source=str(files[0]), targets=[str(files[1])])
    assert (test.sources, test.references) == (["a", "a <sep> b"], [["c"], ["d"]])


def test_commands_use_the_context_of_the_run(tmp_path: Path) -> None:
    table = write_lines(tmp_path / "pairs.tsv", (f"{i % 7} {i % 5}\t{i % 3}" for i in range(40)))
    settings = {**TINY_TRANSFORMER, "text.tokenizer": "word", "data.context": 2, "train.max_steps": 1}
    run = train_run(tmp_path / "run", table, {**settings, "search.longest": 3}).folder
    lines = write_lines(tmp_path / "lines.txt", ["1 2", "3 4", "", "5 1"])
    done = run_command("translate", run, lines, "--json", "--flush")
    told = [json.loads(line)["source"] for line in done.out.splitlines()]
    assert told == ["1 2", "1 2 <sep> 3 4", "", "5 1"]
    both = write_lines(tmp_path / "both.tsv", ["1 2\t1", "3 4\t2"])
    assert run_command("score", run, both, "--out", tmp_path / "scores.jsonl").code == 0
    scores = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    explicit = write_lines(tmp_path / "explicit.jsonl", ['{"source": "1 2 <sep> 3 4", "target": "2"}'])
    assert run_command("score", run, explicit, "--out", tmp_path / "one.jsonl").code == 0
    (alone,) = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text().splitlines()]
    assert scores[1]["log_prob"] == pytest.approx(alone["log_prob"])
    done = run_command("inspect", "search", run, "--errors", lines, "--beams", "1", "--json")
    assert done.code == 0, done.err
    done = run_command("backtranslate", run, lines, "--out", tmp_path / "synthetic.tsv")
    assert done.code == 2 and "trained with data.context=2" in done.err
    done = run_command("distill", run, "--out", tmp_path / "student")
    assert done.code == 2 and "trained with data.context=2" in done.err


@pytest.mark.parametrize(
    "options",
    [{"format": "text"}, {"target_column": "none"}, {"heads_column": "3"}, {"tags_column": "3"}],
)
def test_options_that_exclude_context(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"data\.context"):
        DataConfig.model_validate({"train": "pairs.tsv", "context": 1, **options})


def test_data_that_excludes_context(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pairs.zip", "w") as archive:
        archive.writestr("pairs.tsv", "a\tb\n")
    with pytest.raises(SeqloomError, match="cannot be used for archives"):
        sources(train=str(tmp_path / "pairs.zip"), context=1)
    (tmp_path / "a.npy").touch()
    table = write_lines(tmp_path / "clips.tsv", ["a.npy\ta", "a.npy\tb"])
    with pytest.raises(SeqloomError, match="cannot be used for feature files"):
        sources(train=str(table), context=1)
    (tmp_path / "a.conllu").write_text("1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("A\n", encoding="utf-8")
    with pytest.raises(SeqloomError, match="cannot be used for sentences with dependency trees"):
        sources(source=str(tmp_path / "a.conllu"), target=str(tmp_path / "a.txt"), context=1)
