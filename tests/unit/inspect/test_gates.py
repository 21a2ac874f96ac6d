"""Gates of LSTM and GRU layers, compared with NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.inspect.gates import gate_trace
from seqloom.run.load import LoadedRun, load_run
from support.commands import Command
from support.runs import LSTM, SharedRuns, train_run

TEXT, TARGET = "a man is running.", "A DOG"


@pytest.fixture(scope="module")
def folder(shared_runs: SharedRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shared_runs.build("lstm", "transformer")
    made = tmp_path_factory.mktemp("gates")
    (made / "lstm").symlink_to(folder / "lstm")
    (made / "transformer").symlink_to(folder / "transformer")
    for name, model in (("gru", "gru-last"), ("rnn", "rnn-last")):
        train_run(made / name, folder / "pairs.tsv", {**LSTM, "model.name": model, "train.max_steps": 1})
    return made


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _inputs(opened: LoadedRun) -> np.ndarray:
    ids = [*opened.tokenizers.source.encode(TEXT), 2]
    model: Any = opened.model
    return np.asarray(model.source_embedding.weight.detach().double().numpy()[ids])


@pytest.mark.parametrize("direction", ["forwards", "backwards"])
def test_gates_of_an_lstm_equal_those_by_hand(folder: Path, direction: str) -> None:
    opened = load_run(folder / "lstm", device="cpu")
    model: Any = opened.model
    layer = getattr(model.encoder, direction)[0]
    u, w, b, b2 = (part.detach().double().numpy() for part in layer.fused.parameters())
    x = _inputs(opened)
    h = c = np.zeros(layer.width)
    rows = []
    for one in x if direction == "forwards" else x[::-1]:
        i, f, n, o = np.split(u @ one + b + w @ h + b2, 4)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(n)
        h = _sigmoid(o) * np.tanh(c)
        rows.append((_sigmoid(f), _sigmoid(i), _sigmoid(o), c))
    found = gate_trace(opened, TEXT, TARGET).layers[0 if direction == "forwards" else 1]
    assert found.name == f"encoder 1 {direction[:-1]}"
    assert list(found.maps) == ["forget", "input", "output", "cell"]
    expected = zip(*(rows if direction == "forwards" else rows[::-1]), strict=True)
    for values, rows_by_hand in zip(found.maps.values(), expected, strict=True):
        assert np.allclose(values, rows_by_hand, atol=1e-5)


def test_gates_of_a_gru_equal_those_by_hand(folder: Path) -> None:
    opened = load_run(folder / "gru", device="cpu")
    model: Any = opened.model
    layer = model.encoder.forwards[0]
    u, w, b, b2 = (part.detach().double().numpy() for part in layer.fused.parameters())
    h, found = np.zeros(layer.width), gate_trace(opened, TEXT, TARGET).layers[0]
    for t, one in enumerate(_inputs(opened)):
        (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(u @ one + b, 3), np.split(w @ h + b2, 3)
        r, z = _sigmoid(r_x + r_h), _sigmoid(z_x + z_h)
        h = (1 - z) * np.tanh(n_x + r * n_h) + z * h
        for name, value in (("update", z), ("reset", r), ("state", h)):
            assert np.allclose(found.maps[name][t], value, atol=1e-5)


def test_a_forget_gate_of_1_and_an_input_gate_of_0_keep_the_cell(folder: Path) -> None:
    opened = load_run(folder / "lstm", device="cpu")
    model: Any = opened.model
    layer = model.decoder.layers[0]
    start = torch.full((1, 1, layer.width), 0.7)
    model.start = lambda batch, start_=model.start: _with_cell(start_(batch), start)
    with torch.no_grad():
        bias = layer.weights().input_bias.view(4, -1)
        bias[0], bias[1] = -1000, 1000
    found = gate_trace(opened, TEXT, TARGET).layers[-1]
    assert found.name == "decoder 1"
    assert (found.gates["forget"] == 1).all() and (found.gates["input"] == 0).all()
    assert np.allclose(found.state, 0.7)
    assert len(found.tokens) == len(found.state) and found.tokens[0] == "<s>"


def _with_cell(started: Any, cell: torch.Tensor) -> Any:
    memory, state = started
    return memory, {**state, "cells": (state["cells"][0], cell)}


def test_the_command_prints_writes_and_refuses(folder: Path, command: Command, tmp_path: Path) -> None:
    done = command("inspect", "gates", folder / "lstm", TEXT, "--target", TARGET)
    assert done.code == 0 and "forget" in done.out
    done = command("inspect", "gates", folder / "gru", TEXT, "--json", "--out", tmp_path / "g.png")
    told = json.loads(done.out)
    assert told["version"] == 1 and set(told["layers"][0]["units"]) == {"update", "reset", "state"}
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    for name, text, message in (
        ("transformer", "1 2", "no recurrent layers"),
        ("rnn", TEXT, "no gates"),
        ("lstm", " ", "empty"),
    ):
        done = command("inspect", "gates", folder / name, text)
        assert done.code == 2 and message in done.err


def test_gates_of_a_language_model_cover_its_whole_sequence(shared_runs: SharedRuns, tmp_path: Path) -> None:
    data = shared_runs.build("lm") / "text.txt"
    train_run(tmp_path / "lm", data, {**LSTM, "model.name": "lstm-lm", "train.max_steps": 1})
    opened = load_run(tmp_path / "lm", device="cpu")
    (found,) = gate_trace(opened, TEXT).layers
    assert found.name == "decoder 1"
    assert len(found.state) == len(found.tokens)
    assert found.tokens[-1] == opened.tokenizers.target.pieces(opened.tokenizers.target.encode(TEXT))[-1]
    with pytest.raises(SeqloomError, match="takes no target"):
        gate_trace(opened, TEXT, TARGET)
