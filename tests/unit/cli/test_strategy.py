"""`seqloom translate` with ensembles, sampling and minimum Bayes risk; errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.decode.config import SamplingConfig
from seqloom.decode.mbr import by_least_risk
from seqloom.run.load import load, load_ensemble
from seqloom.types import Request
from support.commands import Command

LINES = ["a man is running.", "", "a man is running.", "two dogs"]
SHORT = ("--set", "search.longest=8")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Four lines: one is empty, two are equal."""
    (tmp_path / "some.txt").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path / "some.txt"


@pytest.mark.parametrize("space", ["probability", "log"])
def test_an_ensemble_averages_its_models(
    runs: Path, lstm: Path, command: Command, text: Path, space: Any
) -> None:
    done = command(
        "translate", runs / "pairs", text, "--ensemble", lstm, "--ensemble-space", space, "--json", *SHORT
    )
    assert done.code == 0, done.err
    told = [json.loads(line) for line in done.out.splitlines()]
    both = load_ensemble([runs / "pairs", lstm], space=space, search={"longest": 8})
    expected = [many[0] for many in both.translate(LINES)]
    assert [one["hypotheses"][0]["text"] for one in told] == [one.text for one in expected]
    scores = [one["hypotheses"][0]["score"] for one in told]
    assert scores == pytest.approx([one.score for one in expected], rel=1e-5)
    assert {one["engine"] for one in told} == {"torch"}


def test_a_sample_depends_on_seed_and_line_alone(
    runs: Path, command: Command, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = ("translate", runs / "pairs", text, "--sample", *SHORT)
    once = command(*draw)
    assert (once.code, len(once.out.split("\n"))) == (0, 5), once.err
    first, empty, second, _, _ = once.out.split("\n")
    assert empty == "" and first != second  # equal lines have other samples
    monkeypatch.setattr("seqloom.cli.translate._CHUNK_LINES", 1)
    assert command(*draw).out == once.out
    assert command(*draw, "--seed", 7).out != once.out
    translator = load(runs / "pairs", search={"longest": 8})
    keys = range(1, 5)
    requests = [Request(line, key=key) for key, line in zip(keys, LINES, strict=True)]
    expected = translator.sample(requests, SamplingConfig(samples=7, top_k=5, temperature=0.8))
    several = command(*draw, "--nbest", 7, "--top-k", 5, "--temperature", 0.8)  # more than the beam
    lines = [
        f"{n}\t{one.score:.4f}\t{one.text}" for n, many in zip(keys, expected, strict=True) for one in many
    ]
    assert several.out.splitlines() == lines


def test_minimum_bayes_risk_among_samples(runs: Path, command: Command, text: Path) -> None:
    done = command("translate", runs / "pairs", text, "--mbr", "chrf", "--samples", 6, "--nbest", 2, *SHORT)
    assert done.code == 0, done.err
    translator = load(runs / "pairs", search={"longest": 8})
    requests = [Request(line, key=key) for key, line in enumerate(LINES, 1)]
    found = by_least_risk(translator.sample(requests, SamplingConfig(samples=6)), "chrf", drawn=True)
    lines = [f"{n}\t{one.score:.4f}\t{one.text}" for n, many in enumerate(found, 1) for one in many[:2]]
    assert done.out.splitlines() == lines


def test_minimum_bayes_risk_among_the_n_best_list(runs: Path, command: Command, text: Path) -> None:
    done = command("translate", runs / "pairs", text, "--mbr", "bleu", "--beam", 4, "--json", *SHORT)
    assert done.code == 0, done.err
    translator = load(runs / "pairs", search={"longest": 8})
    found = by_least_risk(translator.translate(LINES, beam=4, nbest=4), "bleu", drawn=False)
    told = [json.loads(line)["hypotheses"] for line in done.out.splitlines()]
    assert [[one["text"] for one in many] for many in told] == [[many[0].text] for many in found]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sample", "--beam", 3), "--beam 3 and --sample exclude each other"),
        (("--sample", "--alignment", "--json"), "--alignment needs a beam search"),
        (("--alignment",), "--alignment needs --json"),
        (("--sample", "--set", "search.stop=ahead"), "search.stop has no effect with the strategy sample"),
        (("--sample", "--samples", 3), "--samples 3 needs --mbr"),
        (("--sample", "--engine", "ctranslate2"), "CTranslate2 does not support the model prefix-lm"),
        (("--sample", "--engine", "tourch"), "There is no engine called 'tourch'"),
        (("--ensemble-space", "log"), "--ensemble-space log needs several runs"),
        (("--temperature", 0.5), "--temperature has no effect on a beam search"),
        (("--mbr", "bleu", "--beam", 3, "--top-k", 2), "--top-k has no effect on a beam search"),
        (("--mbr", "bleu", "--beam", 3, "--samples", 2), "--samples has no effect on a beam search"),
        (("--mbr", "blue"), "There is no utility called 'blue'"),
        (("--ensemble", "nowhere"), "There is no run directory nowhere"),
        (("--strategy", "bean"), "There is no strategy called 'bean'"),
        (("--strategy", "mbr", "--beam", 3), "--beam and --strategy mbr exclude each other"),
        (("--set", "strategy.samples=3"), "strategy.samples needs --strategy"),
        (("--strategy", "sample", "--set", "strategy.smaples=3"), "There is no option strategy.smaples"),
        (("--ensemble", ".", "--ensemble-space", "logs"), "There is no space called 'logs'"),
    ],
)
def test_options_that_contradict_each_other(
    runs: Path, command: Command, text: Path, options: tuple[object, ...], message: str
) -> None:
    done = command("translate", runs / "pairs", text, *options)
    assert done.code == 2 and not done.out
    assert message in done.err and "hint:" in done.err


def test_evaluation_of_an_ensemble(runs: Path, lstm: Path, command: Command, tmp_path: Path) -> None:
    out = tmp_path / "answers.txt"
    pairs = runs / "pairs.tsv"
    done = command("evaluate", runs / "pairs", pairs, "--ensemble", lstm, "--json", "--out", out)
    assert done.code == 0, done.err
    sources = [line.split("\t")[0] for line in pairs.read_text().splitlines()]
    expected = load_ensemble([runs / "pairs", lstm]).translate(sources)
    assert out.read_text().splitlines() == [many[0].text for many in expected]
    assert json.loads(done.out)["settings"]["run"] == f"{runs / 'pairs'} + {lstm}"


def test_exact_search_reports_what_is_proved(runs: Path, command: Command, text: Path) -> None:
    options = ("--exact", "--set", "search.longest=2", "--set", "search.length_norm=none", "--beam", 1)
    done = command("translate", runs / "pairs", text, *options, "--expand", 5000, "--json")
    assert done.code == 0, done.err
    assert "proved to be the best output: 4 of 4 lines" in done.err
    found = [json.loads(line)["hypotheses"] for line in done.out.splitlines()]
    wide = load(runs / "pairs", search={"longest": 2, "length_norm": "none", "beam": 5000, "stop": "length"})
    assert [one["text"] for (one,) in found] == [best.text for (best,) in wide.translate(LINES)]
    short = command("translate", runs / "pairs", text, "--exact", "--expand", 1)
    assert "proved to be the best output: 1 of 4 lines" in short.err  # the empty one
    assert "unproven: the exact search ended" in short.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--expand", 5), "--expand 5 needs --exact"),
        (("--exact", "--sample"), "--sample and --exact exclude each other"),
        (("--exact", "--nbest", 2), "--nbest and --exact exclude each other"),
        (("--exact", "--alignment", "--json"), "does not support alignments"),
        (("--exact", "--engine", "ctranslate2"), "CTranslate2 does not support"),
        (("--exact", "--set", "search.groups=5"), "search.groups has no effect with the strategy exact"),
        (("--set", "search.stop_after=2", "--set", "search.stop=length"), "search.stop_after=2 has no effect"),
        (("--set", "search.stop_after=2", "--set", "search.groups=5"), "does not support diverse groups"),
        (("--set", "search.stop_after=2", "--nbest", 3), "search.nbest=3 exceeds search.stop_after=2"),
    ],
)
def test_contradictory_options_of_search_are_errors(
    runs: Path, command: Command, text: Path, options: tuple[object, ...], message: str
) -> None:
    done = command("translate", runs / "pairs", text, *options)
    assert done.code == 2
    assert message in done.err
