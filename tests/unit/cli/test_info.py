"""`seqloom info`: clipping, cost, and the figure of the gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom import SeqloomError
from seqloom.cli.info import info
from seqloom.inspect import cost_measure
from support.configs import TINY
from support.runs import create_run, write_digits


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run before its first step."""
    folder = tmp_path_factory.mktemp("run")
    return create_run(folder / "run", write_digits(folder / "pairs.tsv"), TINY).folder


def _reports(run: Path, *values: dict[str, Any]) -> None:
    """Write these records to the metrics of the run, 50 steps apart."""
    lines = [
        {"kind": "train", "step": 50 * number, "loss": 1.0, "seconds": 1.0 * number, **one}
        for number, one in enumerate(values, start=1)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _said(run: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the text of the line on clipping."""
    info(run)
    return [
        line.removeprefix("clipped").strip()
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("clipped")
    ]


def test_clipping_is_text_by_default_and_two_numbers_as_json(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _reports(run, {"clipped": 0.064, "clip_factor": 0.714}, {"clipped": 0.0, "clip_factor": 1.0})
    assert _said(run, capsys) == ["3.2 % of updates, to 0.71 of their norm on average"]
    info(run, json_=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["clipped"] == pytest.approx({"share": 0.032, "factor": 0.714})


@pytest.mark.parametrize(
    "share, words",
    [
        (0.0, "no updates"),
        (0.00123, "0.123 % of"),
        (0.456, "45.6 % of"),
        (0.9999, "100 % of"),
        (1.0, "100 % of"),
    ],
)
def test_shares_are_printed_as_percentages(
    run: Path, capsys: pytest.CaptureFixture[str], share: float, words: str
) -> None:
    _reports(run, {"clipped": share, "clip_factor": 0.5 if share else 1.0})
    (said,) = _said(run, capsys)
    assert said.startswith(words)


def test_a_run_without_records_of_clipping_shows_none(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older: list[list[dict[str, Any]]] = [[], [{}, {}]]
    for reports in older:
        _reports(run, *reports)
        assert _said(run, capsys) == []


@pytest.mark.parametrize(
    "values, panels", [({}, 1), ({"gradient_norms": {"encoder.0": 0.5, "output": None}}, 2)]
)
def test_the_gradients_are_drawn_if_the_run_has_them(
    run: Path, tmp_path: Path, values: dict[str, Any], panels: int
) -> None:
    _reports(run, values, values)
    info(run, plot=tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").count('id="axes_') == panels


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure times once or three times instead of for a second."""
    monkeypatch.setattr(cost_measure, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(cost_measure, "TIMED_TOKENS", 1)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Configuration without data."""
    file = tmp_path / "small.yaml"
    file.write_text("text: {vocab_size: 40}\nmodel: {size: tiny, width: 8, layers: 2}\n")
    return file


@pytest.mark.usefixtures("quick")
def test_the_cost_of_a_configuration(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info(config, cost=True, length=6)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == f"{config}: transformer, 6 tokens on each side"
    assert lines[1] == "vocabulary 40 and 40 (from text.vocab_size, an upper bound)"
    assert "self-attention O(n² d) 6 x 8 288 1 1" in lines
    assert "n = 6, d = 8: n² d is less than the n d² of a recurrent layer." in lines
    (feed_forward,) = (line for line in lines if line.startswith("encoder feed-forward"))
    assert feed_forward.startswith("encoder feed-forward 2 13,072 24.6 k 49.2 k")
    (flops,) = (line.removeprefix("FLOPs, forward ") for line in lines if line.startswith("FLOPs, forward"))
    predicted, measured = flops.split(" k")[:2]
    assert float(predicted) == float(measured) > 0


@pytest.mark.usefixtures("quick")
def test_the_cost_as_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info(config, cost=True, length=6, set_=["model.name=lstm-dot"], json_=True)
    facts = json.loads(capsys.readouterr().out)
    assert (facts["model"], facts["length"]) == ("lstm-dot", 6)
    assert facts["vocabulary"] == {
        "source": 40,
        "target": 40,
        "features": False,
        "shared": True,
        "tags": [],
        "outputs": "tokens",
        "word_starts": None,
        "from": "text.vocab_size, an upper bound",
    }
    for key in ("parameters", "forward_per_token", "backward_per_token", "kept_per_token"):
        assert facts["total"][key] == pytest.approx(sum(part[key] for part in facts["parts"]))
    assert facts["measured"]["forward_per_token"] == facts["total"]["forward_per_token"]
    assert facts["measured"]["training_rate"] > 0
    decoder = {"kind": "recurrent, lstm", "positions": 6, "width": 8, "complexity": "O(n d²)"}
    assert {**decoder, "operations": 384, "sequential": 6, "path": 6} in facts["layers"]
    assert facts["not_predicted"] == []


@pytest.mark.usefixtures("quick")
def test_the_cost_of_a_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info(run, cost=True, length=4, plot=tmp_path / "cost.svg")
    assert "(from the run's tokenizer)" in capsys.readouterr().out
    assert "MFLOPs per token" in (tmp_path / "cost.svg").read_text(encoding="utf-8")
    info(run, json_=True)
    parameters = json.loads(capsys.readouterr().out)["parameters"]
    info(run, cost=True, json_=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["total"]["parameters"] == parameters
    assert facts["length"] == 64


@pytest.mark.parametrize(
    "options, message",
    [
        ({"length": 0}, "length must be at least 1 token, got 0"),
        ({"set_": ["model.positions=learned", "model.max_length=9"]}, "9 learned positions"),
        ({"plot": Path("cost.txt")}, "cannot be written as .txt"),
        ({"set_": ["model.width=80000000000"]}, "The model transformer cannot be built"),
        ({"cost": False}, "small.yaml is a file, not a run directory"),
        ({"cost": False, "set_": ["model.layers=1"]}, "--set needs a YAML file"),
    ],
    ids=str,
)
def test_options_that_need_a_run_are_refused_for_a_configuration(
    config: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SeqloomError, match=message) as caught:
        info(config, **{"cost": True, **options})
    assert caught.value.hint


def test_neither_run_nor_configuration(tmp_path: Path, run: Path) -> None:
    with pytest.raises(SeqloomError, match="neither a run directory nor a configuration file"):
        info(tmp_path / "nothing", cost=True)
    with pytest.raises(SeqloomError, match="is not a run directory"):
        info(tmp_path, cost=True)
    with pytest.raises(SeqloomError, match="--set needs a YAML file"):
        info(run, cost=True, set_=["model.layers=1"])
