"""Position tables, compared with the published formulas in NumPy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.inspect.positions import position_tables
from seqloom.inspect.untrained import open_model
from support.commands import Command

T, D, H = 20, 24, 4


def model_with(kind: str) -> Any:
    return open_model(Path("transformer"), [f"model.width={D}", f"model.positions={kind}"])


def test_sinusoids_and_their_products_depend_on_the_distance_only() -> None:
    found = position_tables(model_with("sinusoidal"), length=T)
    table = found.vectors["source and target"]
    for p in range(T):
        for i in range(D // 2):
            angle = p / 10_000 ** (2 * i / D)
            assert table[p, 2 * i : 2 * i + 2] == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-5)
    products = found.products["source and target"]
    for i in range(T):
        for j in range(T):
            expected = sum(math.cos((i - j) / 10_000 ** (2 * k / D)) for k in range(D // 2))
            assert products[i, j] == pytest.approx(expected, abs=1e-4)


def test_learned_positions_are_the_rows_of_both_tables() -> None:
    model = model_with("learned")
    found = position_tables(model, length=T)
    assert list(found.vectors) == ["source", "target"]
    rows = model.target_positions.table.weight[:T].detach().numpy()
    assert np.allclose(found.vectors["target"], rows)
    with pytest.raises(SeqloomError, match="only 1024 learned positions"):
        position_tables(model, length=1025)


def test_rotary_products_depend_on_the_distance_only() -> None:
    products = position_tables(model_with("rotary"), length=T).products["queries and keys"]
    width = D // H
    for i in range(T):
        for j in range(T):
            angles = [(i - j) / 10_000 ** (2 * k / width) for k in range(width // 2)]
            assert products[i, j] == pytest.approx(2 / width * sum(map(math.cos, angles)), abs=1e-5)


def test_the_bias_of_alibi_is_a_slope_per_head() -> None:
    bias = position_tables(model_with("alibi"), length=T).biases["encoder"]
    i, j = np.meshgrid(np.arange(T), np.arange(T), indexing="ij")
    for head in range(1, H + 1):
        assert np.allclose(bias[head - 1], -(2 ** (-8 * head / H)) * abs(i - j))


def test_the_bias_of_kerple_is_logarithmic() -> None:
    bias = position_tables(model_with("kerple"), length=T).biases["decoder"]
    i, j = np.meshgrid(np.arange(T), np.arange(T), indexing="ij")
    assert np.allclose(bias[0], -math.log(2) * np.log(1 + math.log(2) * abs(i - j)), atol=1e-5)


def test_the_bias_of_t5_is_that_of_the_bucket() -> None:
    model = model_with("t5")
    found = position_tables(model, length=T)
    kind = model.decoder[0].attention.positions
    table = kind.table.weight.detach().numpy()
    for head in range(H):
        for i, j in ((5, 5), (5, 2), (19, 0), (3, 9)):
            distance = max(i - j, 0)  # causal: keys after the query share the bucket of distance 0
            bucket = distance if distance < 16 else 16 + int(math.log(distance / 16) / math.log(128 / 16) * 16)
            assert found.biases["decoder"][head, i, j] == pytest.approx(table[bucket, head])


def test_the_bias_of_relative_positions_is_its_deviation_over_queries() -> None:
    model = model_with("relative")
    kind = model.encoder[0].attention.positions
    keys = kind.keys.detach().double().numpy()
    queries = np.random.default_rng(1).normal(size=(40_000, keys.shape[1]))
    bias = position_tables(model, length=T).biases["encoder"]
    assert bias.shape == (1, T, T)
    for i, j in ((0, 0), (4, 1), (1, 4), (0, 19)):
        drawn = queries @ keys[max(-16, min(16, j - i)) + 16] / math.sqrt(keys.shape[1])
        assert bias[0, i, j] == pytest.approx(drawn.std(), rel=0.03)


def test_tree_positions_use_the_tree() -> None:
    model = model_with("syntax")
    found = position_tables(model, text="a b c", heads="2 0 2")
    assert found.length == 3
    kind = model.encoder[0].attention.positions
    linear, tree = (part.keys.detach().double().numpy() for part in (kind.linear, kind.tree))
    relative = [[0, 1, -2], [-1, 0, -1], [2, 1, 0]]  # a and c are children of b
    for i in range(3):
        for j in range(3):
            vector = linear[j - i + 16] + tree[relative[i][j] + 16]
            expected = np.linalg.norm(vector) / math.sqrt(len(vector))
            assert found.biases["encoder"][0, i, j] == pytest.approx(expected, rel=1e-5)
    other = position_tables(model, text="a b c", heads="0 1 2")
    assert not np.allclose(other.vectors["source"], found.vectors["source"])


def test_the_command_prints_writes_and_refuses(command: Command, tmp_path: Path) -> None:
    done = command("inspect", "positions", "transformer-alibi", "--json", "--out", tmp_path / "p.png")
    told = json.loads(done.out)
    assert (told["version"], told["length"]) == (1, 32)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    done = command("inspect", "positions", "transformer", "--length", 8)
    assert done.code == 0 and "48.0000" in done.out  # p·p = D/2 at distance 0
    for options, message in (
        (("rnn-last",), "no position encoding"),
        (("transformer", "--set", "model.positions=none"), "no position encoding"),
        (("transformer", "--text", "a b"), "both --text and --heads"),
        (("transformer", "--text", "a b", "--heads", "0 1"), "no positions in a tree"),
        (("transformer-syntax", "--text", "a b", "--heads", "1 1"), "not a tree"),
        (("no.yaml",), "no run or configuration file"),
        (("transfomer",), "transformer"),
    ):
        done = command("inspect", "positions", *options)
        assert done.code == 2 and message in done.err, done.err
