"""Findings of the doctor: each problem is provoked, and a healthy run has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from torch import nn

from seqloom.inspect.doctor import RunHistory, diagnose
from seqloom.inspect.facts import describe
from seqloom.registry import architecture
from seqloom.run.directory import Run
from seqloom.training.config import TrainConfig
from seqloom.types import Vocabularies

CONFIG = TrainConfig.model_validate({"max_steps": 1000, "warmup": 100})


def _model() -> nn.Module:
    entry = architecture("transformer")
    torch.manual_seed(1)
    model: nn.Module = entry.build(
        entry.settings.model_validate({"name": "transformer", "size": "tiny"}), Vocabularies(20, 20, True)
    )
    return model


def _train(losses: list[float | None], **more: Any) -> list[dict[str, Any]]:
    usual = {"clipped": 0.1, "padding": 0.05, "skipped": 0}
    return [
        {"kind": "train", "step": 100 * i, "loss": loss, **usual, **more} for i, loss in enumerate(losses, 1)
    ]


def _valid(losses: list[float | None]) -> list[dict[str, Any]]:
    return [{"kind": "valid", "step": 100 * i, "loss": loss} for i, loss in enumerate(losses, 1)]


FALLING = [6.0, 4.0, 3.0, 2.5, 2.2, 2.1]
SETTLED = [5.0, 3.0, 2.5, 2.41, 2.40, 2.40]
DATA = {"total": 1000, "kept": 990, "dropped": 10, "counts": {"empty source": 10}}


def _problems(
    metrics: list[dict[str, Any]] | None = None,
    data: Mapping[str, Any] = DATA,
    model: nn.Module | None = None,
) -> list[str]:
    metrics = _train(FALLING) + _valid(SETTLED) if metrics is None else metrics
    found = diagnose(RunHistory(CONFIG, metrics, data, model or _model()))
    assert all(one.evidence and one.advice for one in found)
    return [f"{one.problem} {one.evidence}" for one in found]


def test_a_healthy_run_has_no_findings() -> None:
    assert _problems() == []


def test_a_run_without_a_log_has_no_findings() -> None:
    assert _problems(metrics=[], data={}) == []


LAYERS = {"encoder.0": 1e-7, "encoder.1": 0.1, "decoder.0": 0.1, "decoder.1": 0.1, "output": 1e-9}


@pytest.mark.parametrize(
    ("metrics", "problem"),
    [
        (_train([6.0, 3.0, 2.0, 4.0]), "rose again. 2 at step 300, 4 at step 400"),
        (_train([6.0, 3.0, None]), "rose again. 3 at step 200, not finite at step 300"),
        (_train(FALLING, skipped=3), "not finite. 18 of 600 updates"),
        (_train(FALLING[:3]) + _train(FALLING, spikes=2)[3:], "spikes. 6 updates, first before step 400"),
        (_train(FALLING, clipped=0.8), "Most gradients were clipped"),
        (
            _train([6.0, 5.99, 5.98, 5.97, 5.96]),
            "hardly learned anything. the training loss went from 6 to 5.96",
        ),
        (
            _valid([None, 3.0, None]),
            "not finite (NaN or infinity). 2 of 3 validations, first at",
        ),
        (_valid([5.0, 3.0, 2.5, 2.8]), "overfits: it still learns the training data"),
        (_valid([5.0, 4.0, 3.5, 3.0, 2.7]), "still improving"),
        (
            _train(FALLING, gradient_norms=LAYERS),
            "vanishes in encoder.0. median norm 1e-07, against 0.1 in encoder.1",
        ),
        (_train(FALLING, padding=0.4), "padding, which costs time for nothing. 40% of the positions"),
    ],
)
def test_findings_from_the_log(metrics: list[dict[str, Any]], problem: str) -> None:
    (found,) = _problems(metrics)
    assert problem in found


def test_a_warm_up_may_be_clipped() -> None:
    lines = _train(FALLING)
    lines[0]["clipped"] = 1.0
    assert _problems(lines) == []


def test_dropped_lines() -> None:
    (found,) = _problems(data={"total": 100, "dropped": 20, "counts": {"too long": 15, "empty source": 5}})
    assert "dropped. 20 of 100: 15 too long, 5 empty source" in found


def test_weights_that_are_not_finite() -> None:
    model = _model()
    with torch.no_grad():
        model.get_parameter("output.bias")[3] = torch.nan
    (found,) = _problems(model=model)
    assert "The weights output.bias are not finite. 1 of 20" in found


@pytest.mark.parametrize("part", ["values", "output"])
def test_a_dead_head(part: str) -> None:
    model = _model()
    attention = model.get_submodule("decoder.1.cross")
    width = attention.v_width
    with torch.no_grad():
        if part == "values":  # of head 2: the second block of the last rows
            rows = attention.key_value.weight[-attention.heads * width :]
            rows[width : 2 * width] *= 1e-4
        else:
            attention.output.weight[:, width : 2 * width] *= 1e-4
    (found,) = _problems(model=model)
    assert "attention heads are dead" in found
    assert "head 2 of decoder.1.cross:" in found


def test_a_run_is_given_by_its_folder(tmp_path: Path) -> None:
    folder = copytree(Path(__file__).parents[2] / "golden" / "fixtures" / "transformer", tmp_path / "run")
    assert diagnose(str(folder)) == []
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps({"kind": "train", "step": 200, "loss": None, "skipped": 50}) + "\n")
    found = diagnose(str(folder))
    assert found == diagnose(folder) == diagnose(Run.open(folder))
    assert found[0].evidence.endswith(", not finite at step 200")
    assert describe(str(folder)) == describe(Run.open(folder))
