"""`seqloom shortlist`, and the commands that use its table."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from support.commands import Command
from support.configs import TINY
from support.runs import train_run

USE = ("--set", "search.shortlist=true")


@pytest.fixture(scope="module")
def lines(runs: Path) -> list[str]:
    return [line.split("\t")[0] for line in (runs / "pairs.tsv").read_text().splitlines()]


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    """Copy of the run pairs, which has no shortlist."""
    return Path(shutil.copytree(runs / "pairs", tmp_path / "run", symlinks=True))


def test_it_writes_a_table_that_translate_and_evaluate_use(
    run: Path, runs: Path, command: Command, lines: list[str], tmp_path: Path
) -> None:
    given = "".join(f"{line}\n" for line in lines)
    refused = command("translate", run, *USE, given=given)
    assert refused.code == 2 and f"{run} has no shortlist" in refused.err
    assert f"seqloom shortlist {run}" in refused.err
    done = command("shortlist", run, "--translations", 3, "--frequent", 5, "--json")
    facts = json.loads(done.out)
    assert done.code == 0 and (run / "shortlist").is_dir()
    assert facts["learned_from"] + facts["pairs"] == len(lines)
    assert 0 < facts["mean_size"] < facts["vocabulary"]
    assert 0.3 < facts["coverage"] <= 1

    answers = command("translate", run, *USE, "--json", given=given)
    found = [json.loads(line) for line in answers.out.splitlines()]
    assert [one["source"] for one in found] == lines
    assert {one["engine"] for one in found} == {"torch"}
    alone = command("translate", run, *USE, "--json", given=f"{lines[3]}\n")
    assert json.loads(alone.out)["hypotheses"][0]["text"] == found[3]["hypotheses"][0]["text"]
    assert command("translate", run, *USE, "--sample", given=given).code == 0
    assert command("evaluate", run, runs / "pairs.tsv", *USE).code == 0


def test_the_commands_of_the_page_run(
    run: Path, runs: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "shortlist.md").read_text(encoding="utf-8")
    (tmp_path / "runs").mkdir()
    run.rename(tmp_path / "runs" / "mine")
    (tmp_path / "input.txt").write_text("a man\n")
    shutil.copy(runs / "pairs.tsv", tmp_path / "valid.tsv")
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^seqloom (.*)$", page, flags=re.MULTILINE)
    assert lines[0].startswith("train ") and len(lines) == 4
    for line in lines[1:]:
        done = command(*line.split())
        assert done.code == 0, f"{line}\n{done.err}"


def test_a_shortlist_can_be_learned_from_other_pairs(
    run: Path, command: Command, tmp_path: Path, runs: Path
) -> None:
    (tmp_path / "more.tsv").write_text((runs / "pairs.tsv").read_text() * 2)
    done = command("shortlist", run, "--data", tmp_path / "more.tsv", "--pairs", 10)  # every fourth of 32
    assert done.code == 0
    assert "learned from 8 pairs: 50 translations, 300 frequent tokens" in done.out
    assert "of the reference tokens" in done.out


def test_the_trace_uses_the_shortlist(run: Path, command: Command, lines: list[str], tmp_path: Path) -> None:
    assert command("shortlist", run, "--translations", 1, "--frequent", 0).code == 0
    done = command("translate", run, *USE, "--trace", tmp_path / "trace.json", given=f"{lines[0]}\n")
    (tree,) = json.loads((tmp_path / "trace.json").read_text())
    assert tree["answer"] == done.out.removesuffix("\n")


def test_the_engine_ctranslate2_is_refused(run: Path, command: Command, runs: Path) -> None:
    pytest.importorskip("ctranslate2")
    # Validation does without the shortlist: the table is made later.
    settings = {**TINY, "train.max_steps": 1, "search.shortlist": True}
    other = train_run(run.with_name("transformer"), runs / "pairs.tsv", settings).folder
    done = command("translate", other, "--engine", "ctranslate2", given="a man\n")
    assert done.code == 2 and "The engine ctranslate2 does not support search.shortlist" in done.err


@pytest.mark.parametrize("name", ["lm", "mlm"])
def test_models_that_do_not_translate_are_refused(runs: Path, command: Command, name: str) -> None:
    done = command("shortlist", runs / name)
    assert done.code == 2 and f"({name}) cannot use a shortlist" in done.err


def test_a_phrase_model_has_no_output_layer(phrase: Path, command: Command) -> None:
    done = command("shortlist", phrase)
    assert done.code == 2 and "(phrase) cannot use a shortlist" in done.err
    done = command("translate", phrase, *USE, given="a man\n")
    assert done.code == 2 and "A phrase-based model does not support search.shortlist" in done.err
