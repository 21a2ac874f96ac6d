"""`seqloom rerank`: best candidate by several models, fitted weights, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqloom.decode.rerank import Channel, ChannelWeights, NoisyChannel
from seqloom.run.load import load, load_scorer
from seqloom.types import Hypothesis
from support.commands import Command

LINES = ["a man is running.", "", "two dogs"]


def test_the_output_is_the_best_candidate_of_all_models(runs: Path, back: Path, command: Command) -> None:
    models = ("rerank", runs / "pairs", "--reverse", back, "--lm", runs / "lm", "--nbest", 4)
    given = "".join(f"{line}\n" for line in LINES)
    done = command(*models, "--weights", "2,0.5,1", "--json", given=given)
    assert done.code == 0, done.err
    told = [json.loads(line) for line in done.out.splitlines()]
    channel = NoisyChannel(load(runs / "pairs"), 4, load_scorer(back), load_scorer(runs / "lm"))
    weights = ChannelWeights(2.0, 0.5, 1.0)
    expected = channel.translate(LINES, weights)
    assert [[one["text"] for one in line["hypotheses"]] for line in told] == [
        [one.hypothesis.text for one in found] for found in expected
    ]
    for line, found in zip(told, expected, strict=True):
        for one, other in zip(line["hypotheses"], found, strict=True):
            assert one["score"] == pytest.approx(other.score(weights), rel=1e-5)
            assert one["reverse_log_prob"] == pytest.approx(other.reverse, rel=1e-5)
            assert one["language_log_prob"] == pytest.approx(other.language, rel=1e-5)
    channel_only = command(*models, "--weights", "1,1,0", "--direct", 0, "--json", given=given)
    for line in channel_only.out.splitlines():
        for one in json.loads(line)["hypotheses"]:
            total = one["reverse_log_prob"] + one["language_log_prob"]
            assert one["score"] == pytest.approx(total, rel=1e-5)
    plain = command(*models, "--weights", "2,0.5,1", given=given)
    assert plain.out.split("\n") == [found[0].hypothesis.text for found in expected] + [""]


def test_fitted_weights_are_printed_and_used(
    runs: Path, back: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    likely = Channel(Hypothesis("one two three four five", 0.0), direct=-1.0, reverse=-9.0, language=0.0)
    right = Channel(Hypothesis("six seven eight nine ten", 0.0), direct=-2.0, reverse=-1.0, language=0.0)
    monkeypatch.setattr(
        "seqloom.decode.rerank.channels", lambda lines, *_, **__: [[likely, right]] * len(lines)
    )
    valid, file = tmp_path / "valid.tsv", tmp_path / "some.txt"
    valid.write_text("a man\tsix seven eight nine ten\na dog\tsix seven eight nine ten\n")
    file.write_text("two women\n")
    models = ("--reverse", back, "--nbest", 2, "--fit", valid)
    alone = command("rerank", runs / "pairs", *models)
    assert alone.code == 0, alone.err
    told = f"--weights 0.2,0,0\nBLEU 100.00 on {valid}, 0.00 without reranking\n"
    assert alone.out == told  # the right ones win from r = 1/8 on: the next of the grid
    both = command("rerank", runs / "pairs", file, *models)
    assert (both.code, both.out) == (0, "six seven eight nine ten\n")
    assert told in both.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "No model to rerank with"),
        (("--lm", "lm"), "No weights"),
        (("--lm", "lm", "--weights", "0,1,0", "--fit", "pairs.tsv"), "--weights and --fit"),
        (("--lm", "lm", "--weights", "1"), "--weights must be three numbers"),
        (("--lm", "lm", "--weights", "0,a,0"), "got '0,a,0'"),
        (("--lm", "lm", "--weights", "0.5,1,0"), "--weights has 0.5 for --reverse"),
        (("--reverse", "pairs", "--weights", "1,1,0"), "--weights has 1 for --lm"),
        (("--reverse", "lm", "--weights", "1,0,0"), "it does not translate"),
        (("--lm", "mlm", "--weights", "0,1,0"), "it does not continue a text"),
    ],
)
def test_impossible_requests_are_errors(
    runs: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(runs)
    done = command("rerank", "pairs", *options)
    assert done.code == 2 and not done.out
    assert message in done.err and "hint:" in done.err
