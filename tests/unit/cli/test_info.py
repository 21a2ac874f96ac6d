"""`seqloom info`: what it says of clipping and draws of the gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli.info import info
from seqloom.config import compose
from seqloom.pipeline import create

SETTINGS = {
    "model.size": "tiny",
    "model.width": 8,
    "model.heads": 2,
    "model.ffn": 8,
    "model.layers": 1,
    "text.tokenizer": "word",
    "text.byte_fallback": False,
    "data.valid_share": 0.2,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run before its first step."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "pairs.tsv").write_text("".join(f"{i % 7} {i % 5}\t{i % 7}\n" for i in range(60)))
    config = compose(values={**SETTINGS, "data.train": str(folder / "pairs.tsv")})
    return create(config, folder / "run", quiet=True).folder


def _reports(run: Path, *values: dict[str, Any]) -> None:
    """Lets the run have reported these, 50 steps apart."""
    lines = [
        {"kind": "train", "step": 50 * number, "loss": 1.0, "seconds": 1.0 * number, **one}
        for number, one in enumerate(values, start=1)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _said(run: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The words of the line on clipping."""
    info(run)
    return [
        line.removeprefix("clipped").strip()
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("clipped")
    ]


def test_clipping_is_a_sentence_for_people_and_two_numbers_for_machines(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _reports(run, {"clipped": 0.064, "clip_factor": 0.714}, {"clipped": 0.0, "clip_factor": 1.0})
    assert _said(run, capsys) == ["3.2 % of updates, to 0.71 of their length on average"]
    info(run, json_=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["clipped"] == pytest.approx({"share": 0.032, "factor": 0.714})


@pytest.mark.parametrize(
    "share, words",
    [
        (0.0, "none of the updates"),
        (0.00123, "0.123 % of"),
        (0.456, "45.6 % of"),
        (0.9999, "100 % of"),
        (1.0, "100 % of"),
    ],
)
def test_shares_as_people_read_them(
    run: Path, capsys: pytest.CaptureFixture[str], share: float, words: str
) -> None:
    _reports(run, {"clipped": share, "clip_factor": 0.5 if share else 1.0})
    (said,) = _said(run, capsys)
    assert said.startswith(words)


def test_a_run_that_did_not_tell_says_nothing_of_clipping(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
