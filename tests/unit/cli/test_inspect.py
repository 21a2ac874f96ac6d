"""`seqloom inspect gradients`: numbers and a figure from a run directory or a configuration."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from seqloom.cli.inspect import _print
from seqloom.inspect.gradients import Curve, GradientFlow
from seqloom.run import train as pipeline
from support.commands import run_command
from support.configs import TINY_RECURRENT

SETTINGS = {**TINY_RECURRENT, "train.max_steps": 2, "train.checkpoint_every": 2}
CONFIG = """
data: {train: TABLE, valid_share: 0.2}
text: {tokenizer: word, byte_fallback: false}
model: {name: lstm-dot, size: tiny, width: 8}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a table of pairs, a configuration that names it and a run that was trained on it."""
    folder: Path = tmp_path_factory.mktemp("inspect")
    table = folder / "pairs.tsv"
    table.write_text("".join(f"{i % 7} {i % 5}\t{i % 7} {i % 5} {i % 3}\n" for i in range(200)))
    (folder / "lstm.yaml").write_text(CONFIG.replace("TABLE", str(table)))
    pipeline.train(table, out=folder / "run", model="rnn-last", size="tiny", settings=SETTINGS, quiet=True)
    return folder


def inspect(*arguments: object) -> str:
    """Return the output of `inspect gradients`."""
    done = run_command("inspect", "gradients", *arguments)
    assert done.code == 0, done.err
    return done.out


def test_a_run_and_a_configuration_side_by_side(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    told = inspect(folder / "run", folder / "lstm.yaml", "--json", "--out", picture, "--batches", 1)
    run, config = json.loads(told)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (run["name"], config["name"]) == (str(folder / "run"), str(folder / "lstm.yaml"))
    assert set(run["curves"]) == {"hidden", "target", "source", "encoder"}
    assert set(config["curves"]) == {"hidden", "cell", "target", "source", "encoder"}
    assert run["spectral_radius"] > 0 and config["spectral_radius"] is None
    assert len(run["curves"]["hidden"]["norm"]) == 4
    assert run["sentences"] == 16


def test_the_weights_of_a_run_are_those_that_were_trained(folder: Path) -> None:
    (first,) = json.loads(inspect(folder / "run", "--json"))
    settings = {**SETTINGS, "train.max_steps": 40, "train.learning_rate": 0.01}
    table, out = folder / "pairs.tsv", folder / "longer"
    pipeline.train(table, out=out, model="rnn-last", size="tiny", settings=settings, quiet=True)
    (second,) = json.loads(inspect(out, "--json"))
    assert first["curves"]["hidden"]["norm"] != pytest.approx(second["curves"]["hidden"]["norm"], rel=0.01)


def test_the_table_has_a_column_for_each_curve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    told = inspect(folder / "run", "--max-distance", 2)
    for head in ("hidden state", "target input", "W^ℓ alone", "source, from its end", "largest |λ| of W"):
        assert head in told
    assert "cell" not in told
    rows = [line.split()[0] for line in told.splitlines() if line.strip()[:1].isdigit()]
    assert rows == ["0", "1", "2"]


def test_an_option_of_the_configuration_can_be_set(folder: Path) -> None:
    (flow,) = json.loads(inspect(folder / "lstm.yaml", "--json", "--set", "model.cell=gru"))
    assert set(flow["curves"]) == {"hidden", "target", "source", "encoder"}


def test_a_figure_that_cannot_be_written_is_refused_before_any_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("seqloom.inspect.gradients.measure_gradients", None)
    done = run_command("inspect", "gradients", folder / "run", "--out", folder / "a.png")
    assert done.code == 2 and "need matplotlib" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "missing is neither a run directory nor a configuration file"),
        (["."], "is not a run directory"),
        (["run", "--set", "model.layers=2"], "--set needs a YAML file"),
        (["run", "--out", "a.gif"], "cannot be written as .gif"),
        (["run", "--out", "nowhere/a.png"], "there is no folder"),
        (["pairs.tsv"], "The configuration pairs.tsv"),
        (["empty.yaml"], "No train data given"),
    ],
)
def test_user_errors(arguments: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "empty.yaml").write_text("model: {name: transformer, size: tiny}\n")
    done = run_command("inspect", "gradients", *arguments)
    error, *hint = done.err.splitlines()
    assert done.code == 2 and error.startswith("error: ") and message in error
    assert hint or "configuration" in message or "folder" in message


def test_an_overflow_is_printed_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    curve = Curve([1.0, math.inf], [1.0, math.inf], [3, 0], [0, 2])
    _print([GradientFlow("model", 2, {"target": curve, "source": curve})])
    printed = capsys.readouterr().out
    assert "4 gradients overflow" in printed
    assert printed.count("overflow") == 3 and "nan" not in printed and "inf" not in printed
