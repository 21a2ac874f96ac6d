"""BLEU taken apart, against sacreBLEU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sacrebleu import corpus_bleu

from seqloom.evaluate.explain import explain_bleu
from seqloom.evaluate.sacre import bleu
from support.commands import Command
from support.golden import GOLDEN, golden_run

OUTPUTS = ["the cat the cat sat on the mat.", "a dog", "zzz", "hello, big world of words"]
REFERENCES = [["the cat sat on the mat.", "on the mat sat the cat, the cat!"], ["a dog barks"] * 2, ["x", "y"]]
REFERENCES.append(["hello, world of big words", "hello big world"])


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_parts_are_those_of_sacrebleu(number: int) -> None:
    found = explain_bleu(bleu(), number, OUTPUTS, REFERENCES)
    line = corpus_bleu(OUTPUTS[number - 1 : number], [[one] for one in REFERENCES[number - 1]])
    corpus = corpus_bleu(OUTPUTS, [list(column) for column in zip(*REFERENCES, strict=True)])
    for ours, theirs in ((found.line, line), (found.corpus, corpus)):
        assert (ours.matches, ours.totals) == (theirs.counts, theirs.totals)
        assert ours.precisions == pytest.approx(theirs.precisions)
        assert (ours.score, ours.brevity_penalty) == pytest.approx((theirs.score, theirs.bp))
        assert (ours.length, ours.reference_length) == (theirs.sys_len, theirs.ref_len)
    assert [sum(grams.values()) for grams in found.matched] == line.counts


def test_the_command_explains_a_line(command: Command, tmp_path: Path) -> None:
    run, test, out = golden_run("transformer"), GOLDEN / "data/test.tsv", tmp_path / "out.txt"
    options = ("--metrics", "chrf,bleu", "--explain", 2, "--out", out)
    found = json.loads(command("evaluate", run, test, *options, "--json").out)
    (score,) = [one["value"] for one in found["scores"] if one["name"] == "bleu"]
    assert found["explain"]["corpus"]["score"] == pytest.approx(score)
    assert " ".join(found["explain"]["output"]) == out.read_text().splitlines()[1]
    assert "matched 4-grams" in command("evaluate", run, test, *options).out


@pytest.mark.parametrize(
    "options, message",
    [(("--explain", 10**6), "has only"), (("--explain", 1, "--metrics", "chrf"), "bleu is not among")],
)
def test_what_cannot_be_explained(options: tuple[object, ...], message: str, command: Command) -> None:
    done = command("evaluate", golden_run("transformer"), GOLDEN / "data/test.tsv", *options)
    assert done.code == 2
    assert message in done.err.replace("\n", " ")
