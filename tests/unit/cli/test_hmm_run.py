"""Commands that show or use attention, on a tagger: each tag attends to its word and to nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import seqloom
from support.commands import Command
from support.golden import GOLDEN, golden_run

TAGGER = golden_run("hmm")
TEXT, TAGS = "the old cat", ["DET", "ADJ", "NOUN"]
DIAGONAL = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]


def test_the_alignment_of_a_tag_is_its_word(command: Command) -> None:
    done = command("translate", TAGGER, "--json", "--alignment", given=f"{TEXT}\n")
    (best,) = json.loads(done.out)["hypotheses"]
    assert (best["tokens"], best["alignment"]) == (TAGS, DIAGONAL)


def test_an_unseen_word_is_aligned_to_its_first_byte() -> None:
    ((best,),) = seqloom.load(TAGGER).translate(["the zebra"], alignment=True)
    assert [row.index(1.0) for row in best.alignment] == [0, 1, len(best.source_tokens)]


def test_the_coverage_penalty_counts_words_without_attention(command: Command) -> None:
    """All words are tagged, so the outputs are the same, but a truncated output leaves words uncovered."""
    options = ("translate", TAGGER, "--json", "--nbest", "3")
    covered = ("--set", "search.coverage_penalty=0.5")
    plain, penalised, cut = (
        [one["score"] for one in json.loads(done.out)["hypotheses"]]
        for done in (
            command(*options, given=f"{TEXT}\n"),
            command(*options, *covered, given=f"{TEXT}\n"),
            command(*options, *covered, "--set", "search.longest=2", given=f"{TEXT}\n"),
        )
    )
    assert penalised == pytest.approx(plain)
    assert max(cut) < plain[0] - 1


def test_inspect_attention(command: Command, tmp_path: Path) -> None:
    done = command("inspect", "attention", TAGGER, TEXT, "--json")
    assert (done.code, json.loads(done.out)["weights"]) == (0, [[DIAGONAL]])
    picture = tmp_path / "attention.png"
    assert command("inspect", "attention", TAGGER, TEXT, "--mean", "--out", picture).code == 0
    assert picture.stat().st_size > 1000


def test_inspect_search(command: Command, tmp_path: Path) -> None:
    done = command("inspect", "search", TAGGER, TEXT, "--out", tmp_path / "tree.html", "--json")
    assert done.code == 0
    assert json.loads(done.out)["answer"] == " ".join(TAGS)


def test_trace(command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = command("translate", TAGGER, "--trace", trace, given=f"{TEXT}\n")
    assert (done.code, done.out) == (0, " ".join(TAGS) + "\n")
    (tree,) = json.loads(trace.read_text(encoding="utf-8"))
    assert tree["attention"]["weights"] == [[DIAGONAL]]


@pytest.mark.parametrize("space", ["probability", "log"])
def test_an_ensemble_of_a_tagger_and_an_lstm(command: Command, tmp_path: Path, space: str) -> None:
    text = {"text.tokenizer": "word", "text.joint": False, "text.vocab_size": 1_000_000}
    settings = {**text, "model.width": 8, "train.max_steps": 1, "train.threads": 1}
    lstm = tmp_path / "lstm"
    table = GOLDEN / "data" / "tagged.tsv"
    seqloom.train(table, out=lstm, model="lstm-dot", size="tiny", settings=settings, plan="fixed", quiet=True)
    options = ("--ensemble", lstm, "--ensemble-space", space, "--json", "--alignment")
    done = command("translate", TAGGER, *options, given=f"{TEXT}\n")
    (best,) = json.loads(done.out)["hypotheses"]
    assert best["tokens"] == TAGS
    for row, word in zip(best["alignment"], DIAGONAL, strict=True):
        assert sum(row) == pytest.approx(1, abs=1e-5)
        assert row[word.index(1.0)] >= 0.5  # the tagger's half of the mean
