"""Ensembles of language models in `seqloom generate` and `seqloom score`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from seqloom.decode.ensemble import Space
from seqloom.errors import SeqloomError
from seqloom.run.load import load_generator, load_scorer
from support.commands import Command
from support.golden import golden_run

LM, LSTM = golden_run("lm"), golden_run("lstm-lm")
TEXTS = [("", "le chat voit le chien ."), ("", "le grand arbre aime"), ("", "")]


@pytest.mark.parametrize("space", ["probability", "log"])
def test_the_score_is_the_mean_of_the_members(space: Space) -> None:
    one, other, both = (
        load_scorer(LM).score(TEXTS),
        load_scorer(LSTM).score(TEXTS),
        load_scorer(LM, ensemble=[LSTM], space=space).score(TEXTS),
    )
    for first, second, mean in zip(one, other, both, strict=True):
        for a, b, found in zip(first.log_probs, second.log_probs, mean.log_probs, strict=True):
            if space == "probability":
                assert math.exp(found) == pytest.approx((math.exp(a) + math.exp(b)) / 2, rel=1e-4)
            else:  # the normaliser Σ √(p q) is at most 1
                assert found >= (a + b) / 2 - 1e-5


def test_the_commands_use_the_ensemble(command: Command, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{text}\n" for _, text in TEXTS[:2]))
    scored = json.loads(command("score", LM, tmp_path / "text.txt", "--ensemble", LSTM, "--json").out)
    both = load_scorer(LM, ensemble=[LSTM]).score(TEXTS[:2])
    assert scored["log_prob"] == pytest.approx(sum(score.log_prob for score in both), rel=1e-6)
    options = ("--beam", 2, "--json", "--ensemble-space", "log", "--ensemble")
    (text,) = json.loads(command("generate", LM, "le chat", *options, LSTM).out)["texts"]
    (expected,) = load_generator(LM, ensemble=[LSTM], space="log").beam(["le chat"], 2, nbest=1)[0]
    assert (text["text"], text["log_prob"]) == (expected.text, pytest.approx(expected.log_prob))
    assert expected.log_prob != pytest.approx(load_generator(LM).beam(["le chat"], 2)[0][0].log_prob)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("score", LM, "text.txt", "--ensemble", golden_run("ngram")), "different tokenizers"),
        (("score", LM, "text.txt", "--ensemble", golden_run("mlm")), "does not continue a text"),
        (
            ("score", golden_run("mlm"), "text.txt", "--ensemble", golden_run("mlm")),
            "does not support ensembles",
        ),
        (("score", golden_run("phrase"), "a.tsv", "--ensemble", golden_run("lstm")), "not probabilities"),
        (("score", golden_run("lstm"), "a.tsv", "--ensemble", golden_run("phrase")), "not probabilities"),
        (("score", LM, "text.txt", "--ensemble-space", "log"), "needs several runs"),
        (("score", golden_run("phrase"), "a.tsv", "--ensemble-space", "log"), "needs several runs"),
        (("score", golden_run("mlm"), "text.txt", "--ensemble-space", "log"), "needs several runs"),
        (("generate", LM, "--ensemble", LSTM, "--ensemble-space", "sum"), "sum"),
    ],
)
def test_runs_that_cannot_vote(
    arguments: tuple[object, ...],
    message: str,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("le chat\n")
    Path("a.tsv").write_text("the cat\tle chat\n")
    done = command(*arguments)
    assert done.code == 2
    assert message in done.err.replace("\n", " ")


def test_an_unknown_space_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="space"):
        load_scorer(LM, ensemble=[LSTM], space="sum")  # type: ignore[arg-type]
