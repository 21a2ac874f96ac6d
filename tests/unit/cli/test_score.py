"""`seqloom score`: totals, worst lines, files and errors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli import score as module
from seqloom.run.load import load_scorer
from support.commands import Command

LINES = ["a man is running.", "the girl plays the guitar.", "zzz", "two dogs"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Four lines and a blank one."""
    (tmp_path / "some.txt").write_text("\n".join([*LINES[:2], "", *LINES[2:]]) + "\n")
    return tmp_path / "some.txt"


def test_perplexities_are_of_the_text_as_written(runs: Path, command: Command, text: Path) -> None:
    done = command("score", runs / "lm", text, "--json")
    facts = json.loads(done.out)
    scores = load_scorer(runs / "lm").score([("", line) for line in LINES])
    assert (facts["lines"], facts["left_out"]) == (4, 1)
    assert facts["words"] == sum(len(line.split()) + 1 for line in LINES)
    assert facts["bytes"] == sum(len(line) + 1 for line in LINES)
    assert facts["tokens"] == sum(len(score.log_probs) for score in scores)
    assert facts["log_prob"] == pytest.approx(sum(score.log_prob for score in scores), rel=1e-6)
    for unit in ("token", "word", "byte"):
        expected = math.exp(-facts["log_prob"] / facts[f"{unit}s"])
        assert facts["perplexity"][unit] == pytest.approx(expected)
    assert facts["bits_per_byte"] == pytest.approx(math.log2(facts["perplexity"]["byte"]))
    assert "4 of 5 lines kept (1 empty source); first: line 3" in done.err


def test_unknown_tokens_are_reported(runs: Path, command: Command, text: Path) -> None:
    facts = json.loads(command("score", runs / "lm", text, "--json").out)
    assert facts["unknown_tokens"] == sum(
        score.unknown for score in load_scorer(runs / "lm").score([("", "zzz")])
    )
    assert facts["unknown_tokens"] > 0
    assert "unknown tokens" in command("score", runs / "lm", text).out


def test_the_worst_lines_are_those_of_the_lowest_mean(
    runs: Path, command: Command, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = json.loads(command("score", runs / "lm", text, "--json", "--worst", 9).out)
    means = [one["mean"] for one in whole["worst"]]
    assert len(means) == 4 and means == sorted(means)
    assert {one["line"]: one["text"] for one in whole["worst"]} == dict(zip((1, 2, 4, 5), LINES, strict=True))
    monkeypatch.setattr(module, "_CHUNK_LINES", 1)  # the worst of all chunks, not of one
    streamed = json.loads(command("score", runs / "lm", text, "--json", "--worst", 2).out)
    assert [one["line"] for one in streamed["worst"]] == [one["line"] for one in whole["worst"][:2]]
    assert streamed["log_prob"] == pytest.approx(whole["log_prob"], rel=1e-6)


def test_the_file_has_every_token_of_every_line(
    runs: Path, command: Command, text: Path, tmp_path: Path
) -> None:
    command("score", runs / "lm", text, "--out", tmp_path / "out.jsonl", "--worst", 0)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 4, 5]
    for row, score in zip(rows, load_scorer(runs / "lm").score([("", line) for line in LINES]), strict=True):
        assert row["tokens"] == list(score.tokens)
        assert row["token_log_probs"] == pytest.approx(score.log_probs, abs=1e-5)
        assert row["log_prob"] == pytest.approx(sum(row["token_log_probs"]))


def test_the_summary_as_text(runs: Path, command: Command, text: Path) -> None:
    done = command("score", runs / "lm", text, "--worst", 1)
    assert [line.split()[:2] for line in done.out.splitlines()[:4]] == [
        ["lines", "4"],
        ["tokens", done.out.split("tokens")[1].split()[0]],
        ["words", "16"],
        ["bytes", "58"],
    ]
    assert "perplexity" in done.out and "bits per byte" in done.out
    assert done.out.splitlines()[-2] == "worst lines, log P per token:"
    assert "worst" not in command("score", runs / "lm", text, "--worst", 0).out


def test_a_masked_model_gives_a_pseudo_perplexity_without_ends(
    runs: Path, command: Command, text: Path
) -> None:
    facts = json.loads(command("score", runs / "mlm", text, "--json").out)
    assert "perplexity" not in facts and "bits_per_byte" not in facts
    assert facts["words"] == sum(len(line.split()) for line in LINES)
    expected = math.exp(-facts["log_prob"] / facts["tokens"])
    assert facts["pseudo_perplexity"]["token"] == pytest.approx(expected)
    assert "pseudo-perplexity" in command("score", runs / "mlm", text).out


@pytest.mark.parametrize("form", ["table", "columns", "files", "stdin"])
def test_pairs_are_read_in_every_format_of_training(
    runs: Path, command: Command, tmp_path: Path, form: str
) -> None:
    pairs = [("a man", "A MAN"), ("the girl", "THE")]
    forms: dict[str, tuple[Any, ...]] = {
        "table": (tmp_path / "pairs.tsv",),
        "columns": (tmp_path / "more.tsv", "--source-column", "3", "--target-column", "2"),
        "files": ("--source", tmp_path / "source.txt", "--target", tmp_path / "target.txt"),
        "stdin": ("-",),
    }
    table = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (tmp_path / "pairs.tsv").write_text(table)
    (tmp_path / "more.tsv").write_text("".join(f"x\t{target}\t{source}\n" for source, target in pairs))
    (tmp_path / "source.txt").write_text("".join(f"{source}\n" for source, _ in pairs))
    (tmp_path / "target.txt").write_text("".join(f"{target}\n" for _, target in pairs))
    facts = json.loads(command("score", runs / "pairs", *forms[form], "--json", given=table).out)
    scores = load_scorer(runs / "pairs").score(pairs)
    assert facts["log_prob"] == pytest.approx(sum(score.log_prob for score in scores), rel=1e-6)
    assert {(one["source"], one["target"]) for one in facts["worst"]} == set(pairs)
    assert facts["words"] == 3 + 2


def test_a_denoising_model_scores_pairs(runs: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "hidden.tsv").write_text("a [MASK] here.\ta man is here.\n")
    facts = json.loads(command("score", runs / "restore", tmp_path / "hidden.tsv", "--json").out)
    (score,) = load_scorer(runs / "restore").score([("a [MASK] here.", "a man is here.")])
    assert facts["log_prob"] == pytest.approx(score.log_prob, rel=1e-6)


def test_malformed_lines_are_skipped_and_reported(runs: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tA\nno tab\n\tB\nb\tB\n")
    done = command("score", runs / "pairs", tmp_path / "pairs.tsv", "--json")
    assert json.loads(done.out)["left_out"] == 2
    assert "1 too few columns" in done.err and "1 empty source" in done.err


def test_the_worst_lines_are_drawn(runs: Path, command: Command, text: Path, tmp_path: Path) -> None:
    assert command("score", runs / "lm", text, "--plot", tmp_path / "a.svg", "--worst", 2).code == 0
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").count('id="axes_') == 2
    assert command("score", runs / "lm", text, "--plot", tmp_path / "b.svg", "--worst", 0).code == 0


@pytest.mark.parametrize(
    "run, arguments, fragments",
    [
        ("lm", (), ("--source and --target", "give files, or both")),
        ("pairs", ("--source", "x"), ("--source and --target",)),
        ("pairs", ("x", "--source", "x", "--target", "y"), ("--source and --target",)),
        ("lm", ("--source", "x", "--target", "y"), ("trained on plain text", "without --source")),
        ("lm", ("nowhere.txt",), ("The file nowhere.txt does not exist",)),
        ("pairs", ("{}/some.txt",), ("5 of 5 lines were dropped", "too few columns")),
        ("lm", ("{}/some.txt", "--plot", "{}/a.jpg"), ("cannot be written as .jpg", ".png")),
        ("lm", ("{}/some.txt", "--out", "{}/no/a"), ("there is no folder",)),
        ("nowhere", ("{}/some.txt",), ("There is no run directory",)),
    ],
)
def test_impossible_requests_are_errors(
    runs: Path, command: Command, text: Path, run: str, arguments: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    done = command("score", runs / run, *(argument.format(text.parent) for argument in arguments))
    assert (done.code, done.out) == (2, "")
    for fragment in fragments:
        assert fragment in done.err
    assert [file.name for file in text.parent.iterdir()] == ["some.txt"]
