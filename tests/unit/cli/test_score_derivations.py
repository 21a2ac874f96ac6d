"""`seqloom score` of a phrase model: model scores, and targets without a derivation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqloom.cli import score_derivations as module
from seqloom.run.load import load_derivations
from support.commands import Command


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three pairs with a derivation, one without, and one without a target."""
    lines = (
        "a man\tA MAN",
        "the girl is running.\tTHE GIRL IS RUNNING.",
        "a dog\tcat",
        "a dog\t",
        "a dog\tA DOG",
    )
    (tmp_path / "some.tsv").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "some.tsv"


def test_the_summary_has_model_scores_and_no_perplexity(
    phrase: Path, command: Command, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK_LINES", 2)
    done = command("score", phrase, table, "--json", "--worst", 2)
    facts = json.loads(done.out)
    assert (facts["lines"], facts["left_out"], facts["unreachable"]) == (4, 1, 1)
    assert "perplexity" not in facts and "log_prob" not in facts
    assert "not a log-probability" in facts["note"]
    pairs = [("a man", "A MAN"), ("the girl is running.", "THE GIRL IS RUNNING."), ("a dog", "A DOG")]
    scores = [found.score or 0.0 for found in load_derivations(phrase).score(pairs)]
    assert facts["model_score"] == pytest.approx(sum(scores))
    assert facts["words"] == 8 and facts["features"]["words"] == 8
    means = [one["mean"] for one in facts["worst"]]
    assert len(means) == 2 and means == sorted(means)
    assert [one["target"] for one in facts["unreachable_lines"]] == ["cat"]
    assert "skipped: " in done.err


def test_the_text_output_explains_the_score(phrase: Path, command: Command, table: Path) -> None:
    out = command("score", phrase, table).out
    assert "not a log-probability" in out
    assert "unreachable            1    25.0 % have no derivation" in out
    assert "first of 1 unreachable lines:\n          line 3: a dog → cat" in out


def test_every_line_is_written_phrase_by_phrase(
    phrase: Path, command: Command, table: Path, tmp_path: Path
) -> None:
    assert command("score", phrase, table, "--out", tmp_path / "all.jsonl").code == 0
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [line["reachable"] for line in lines] == [True, True, False, True]
    assert lines[2]["model_score"] is None and lines[2]["phrases"] == []
    said = [part["target"] for part in lines[1]["phrases"]]
    assert " ".join(said) == "THE GIRL IS RUNNING."
    assert sum(part["score"] for part in lines[1]["phrases"]) == pytest.approx(lines[1]["model_score"])


def test_a_plot_is_refused(phrase: Path, command: Command, table: Path, tmp_path: Path) -> None:
    done = command("score", phrase, table, "--plot", tmp_path / "plot.png")
    assert done.code == 2 and "--plot needs token probabilities" in done.err


def test_a_phrase_model_is_refused_in_a_noisy_channel(
    phrase: Path, runs: Path, command: Command, table: Path
) -> None:
    done = command("rerank", runs / "pairs", table, "--reverse", phrase, "--weights", "1,0,0")
    assert done.code == 2 and "not probabilities" in done.err
    assert f"seqloom score {phrase} for its own scores" in done.err
