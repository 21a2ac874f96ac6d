"""The Pareto front of runs and engines, its table and its figure."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError


@pytest.fixture
def pareto() -> Any:
    return importlib.import_module("pareto")


def point(pareto: Any, bleu: float, rate: float, **others: Any) -> Any:
    values = {"run": "a", "engine": pareto.ENGINES[0], "beam": 1, "parameters": 1, **others}
    return pareto.Point(
        **values, bleu=bleu, low=bleu, high=bleu, sentences_per_second=rate, slowest=rate, fastest=rate
    )


def test_a_point_is_on_the_front_unless_another_is_as_good_and_as_fast(pareto: Any) -> None:
    front = [point(pareto, 40, 10), point(pareto, 38, 100), point(pareto, 30, 900)]
    behind = [point(pareto, 37, 90), point(pareto, 30, 800), point(pareto, 40, 9)]
    marked = pareto.mark_front([*behind, *front])
    assert [(p.bleu, p.sentences_per_second) for p in marked if p.on_front] == [(40, 10), (38, 100), (30, 900)]
    assert [p.sentences_per_second for p in marked] == sorted(p.sentences_per_second for p in marked)


def test_equal_points_are_both_on_the_front(pareto: Any) -> None:
    assert all(p.on_front for p in pareto.mark_front([point(pareto, 1, 1), point(pareto, 1, 1)]))


def test_a_system_that_fails_does_not_lose_the_others(
    pareto: Any, shared_runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    decoders = importlib.import_module("decoders")

    def decode(decoder: Any, setup: Any, lines: list[str], beams: tuple[int, ...], **_others: Any) -> Any:
        if (setup.run.name, decoder.title) == ("lstm", "seqloom-int8"):
            raise SeqloomError("no export", "use torch")
        return decoders.Result(1.0, {beam: decoders.Timing(0.1 * beam, [], lines) for beam in beams})

    systems = {
        name: lambda _setup, name=name: decoders.Decoder(name, "1", "x.py", {}) for name in pareto.ENGINES
    }
    monkeypatch.setattr(pareto, "SYSTEMS", systems)
    monkeypatch.setattr(pareto, "run_decoder", decode)
    lines = tmp_path / "lines.txt"
    lines.write_text("1 2 3 4\n5 6 7 8\n", encoding="utf-8")
    names = ("transformer", "lstm")
    runs = [str(shared_runs.build(*names) / name) for name in names]
    files = ["--source", str(lines), "--target", str(lines), "--out", str(tmp_path / "front.png")]
    options = [
        "--engines",
        "seqloom-torch",
        "seqloom-int8",
        "--repeats",
        "1",
        "--json",
        str(tmp_path / "f.json"),
    ]
    monkeypatch.setattr(sys, "argv", ["pareto.py", *runs, *files, *options])
    with pytest.raises(SeqloomError, match="lstm with seqloom-int8"):
        pareto.main()
    table = capsys.readouterr().out
    assert table.count("| lstm") == 2 and table.count("| transformer") == 4
    assert (tmp_path / "front.png").stat().st_size > 10_000
    points = json.loads((tmp_path / "f.json").read_text())["points"]
    assert {point["sentences_per_second"] for point in points if point["on_front"]} == {20}
    assert [point["bleu"] for point in points] == pytest.approx([100] * 6)
