"""`seqloom evaluate-alignment`: links of a file, and links extracted from a model's attention."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree

import pytest

from seqloom.run.directory import Run
from seqloom.run.load import load_decoder
from support.commands import Command


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    links, gold = tmp_path / "links.txt", tmp_path / "gold.txt"
    links.write_text("0-0 1-1\n\n0-1\n", encoding="utf-8")
    gold.write_text("1-1 2p2\n\n1-1 2?2\n", encoding="utf-8")
    return links, gold


def test_scores_of_a_file(files: tuple[Path, Path], command: Command) -> None:
    found = json.loads(command("evaluate-alignment", *files, "--gold-from", 1, "--json").out)
    assert (found["links"], found["sure"], found["sentences"]) == (3, 2, 3)
    assert found["aer"] == pytest.approx(1 - 3 / 5)
    told = command("evaluate-alignment", *files, "--gold-from", 1).out
    assert "AER" in told and "40.0" in told


def test_links_may_count_from_one_too(files: tuple[Path, Path], command: Command) -> None:
    options = ("--gold-from", 1, "--links-from", 1, "--json")
    found = json.loads(command("evaluate-alignment", files[1], files[1], *options).out)
    assert found["aer"] == 0


def test_a_gold_standard_that_seems_to_count_from_one_is_reported(
    files: tuple[Path, Path], command: Command
) -> None:
    assert "counted from 1?" in command("evaluate-alignment", *files).err
    assert "counted" not in command("evaluate-alignment", *files, "--gold-from", 1).err


def test_wrong_files_are_errors(files: tuple[Path, Path], command: Command, tmp_path: Path) -> None:
    _, gold = files
    other = tmp_path / "other"
    other.write_text("0-0\n", encoding="utf-8")
    assert f"{other} has 1 lines, but {gold} has 3" in command("evaluate-alignment", other, gold).err
    other.write_text("0-0\n0:1\n\n", encoding="utf-8")
    assert f"{other}, line 2, contains '0:1'" in command("evaluate-alignment", other, gold).err
    missing = command("evaluate-alignment", tmp_path / "none", gold)
    assert missing.code == 2
    assert "does not exist" in missing.err


def test_attention_is_scored_by_every_method_best_first(
    runs: Path, lstm: Path, command: Command, tmp_path: Path
) -> None:
    gold = tmp_path / "gold.txt"
    lines = (runs / "pairs.tsv").read_text(encoding="utf-8").splitlines()
    counts = [len(line.split("\t")[0].split()) for line in lines]
    gold.write_text("".join(" ".join(f"{i}-{i}" for i in range(n)) + "\n" for n in counts), encoding="utf-8")
    done = command("evaluate-alignment", runs / "pairs.tsv", gold, "--run", lstm, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found) >= 2
    assert {name.split(", ")[-1] for name in (one["name"] for one in found)} == {"writing", "reading"}
    assert [one["aer"] for one in found] == sorted(one["aer"] for one in found)
    assert all(one["links"] == sum(counts) for one in found)  # one per target word


def test_the_best_head_is_kept_for_the_alignments_of_translations(
    runs: Path, command: Command, tmp_path: Path
) -> None:
    run = copytree(runs / "pairs", tmp_path / "run", symlinks=True)
    gold = tmp_path / "gold.txt"
    gold.write_text("0-0\n" * len((runs / "pairs.tsv").read_text().splitlines()), encoding="utf-8")
    ask = ("evaluate-alignment", runs / "pairs.tsv", gold, "--run", run)
    before = load_decoder(run).translate(["a man"], alignment=True)[0][0].alignment
    done = command(*ask, "--keep", "--json")
    assert done.code == 0, done.err
    best = next(one["name"] for one in json.loads(done.out) if one["name"].startswith("layer"))
    assert f"{run} now uses {best}" in done.err
    head = Run.open(run).alignment_head()
    assert head is not None and f"layer {head.layer + 1}, head {head.head + 1}" in best
    told = json.loads(command("inspect", "attention", run, "a man", "--json").out)
    weights = told["weights"][head.layer][head.head]
    after = load_decoder(run).translate(["a man"], alignment=True)[0][0].alignment
    expected = [*weights[1:], weights[-1]] if head.shifted else weights
    for row, wanted in zip(after[:-2], expected, strict=False):
        assert row == pytest.approx(wanted, abs=1e-4)
    assert after != before
    (run / "alignment.json").write_text("{}")
    assert "does not name a head" in command("translate", run, "--json", "--alignment", given="a\n").err


def test_only_a_run_has_a_head_to_keep(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0-0\n")
    done = command("evaluate-alignment", tmp_path / "a", tmp_path / "a", "--keep")
    assert done.code == 2 and "--keep needs --run" in done.err


def test_a_model_without_attention_is_an_error(
    runs: Path, back: Path, command: Command, tmp_path: Path
) -> None:
    gold = tmp_path / "gold.txt"
    gold.write_text("0-0\n" * 20, encoding="utf-8")
    done = command("evaluate-alignment", runs / "pairs.tsv", gold, "--run", back)
    assert done.code == 2
    assert "has no attention" in done.err


def test_pairs_without_words_are_an_error(lstm: Path, command: Command, tmp_path: Path) -> None:
    pairs, gold = tmp_path / "pairs.tsv", tmp_path / "gold.txt"
    pairs.write_text("a\t\n", encoding="utf-8")
    gold.write_text("\n", encoding="utf-8")
    assert "has no pair with words" in command("evaluate-alignment", pairs, gold, "--run", lstm).err
