"""Gradients of fresh models: the rate of a linear RNN, the bound of others, and stacks of layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.inspect.fresh_gradients import STEEPEST, depth_gradients, gain_gradients
from seqloom.nn.cells import ACTIVATIONS
from support.commands import Command


def test_the_rate_of_a_linear_network_is_the_gain() -> None:
    for one in gain_gradients([0.5, 1.0, 1.6], steps=20).curves:
        assert one.bound == one.gain
        for found in one.rates:
            assert found == pytest.approx(one.gain, rel=0.01)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu"])
def test_no_encoder_step_exceeds_the_bound(activation: Any) -> None:
    (one,) = gain_gradients([1.3], activation=activation, steps=10).curves
    assert one.bound == pytest.approx(1.3 * STEEPEST[activation])
    for distance, norm in enumerate(one.encoder):
        assert norm <= one.bound**distance * (1 + 1e-6)
    assert one.rates[0] < one.bound


def test_the_steepest_slopes_are_those_of_the_activations() -> None:
    x = torch.linspace(-4, 4, 801, dtype=torch.float64, requires_grad=True)
    for name, function in ACTIVATIONS.items():
        (slope,) = torch.autograd.grad(function(x).sum(), x)
        assert float(slope.max()) == pytest.approx(STEEPEST[name])


def test_residual_connections_keep_the_gradient() -> None:
    norms = depth_gradients(12, width=32).norms
    ratio = {kind: values[0] / values[-1] for kind, values in norms.items()}
    assert all(len(values) == 12 for values in norms.values())
    assert ratio["both"] > 0.1 and ratio["neither"] < 1e-3


def test_the_command_prints_writes_and_refuses(command: Command, tmp_path: Path) -> None:
    done = command("inspect", "gradients", "--gain", "0.5,2", "--json", "--out", tmp_path / "g.png")
    told = json.loads(done.out)
    assert told["version"] == 1 and [one["gain"] for one in told["gains"]] == [0.5, 2.0]
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    done = command("inspect", "gradients", "--depth", 3)
    assert done.code == 0 and "neither" in done.out
    for options, message in (
        ((), "one of the three"),
        (("--gain", "1", "--depth", 3), "one of the three"),
        ((tmp_path, "--gain", "1"), "one of the three"),
        (("--gain", "a"), "must be numbers"),
        (("--gain", "0"), "must be numbers"),
        (("--gain", "1", "--activation", "gelu"), "activation"),
        (("--depth", 3, "--activation", "tanh"), "needs --gain"),
        (("--depth", 3, "--set", "model.width=8"), "--set has no effect"),
    ):
        done = command("inspect", "gradients", *options)
        assert done.code == 2 and message in done.err, done.err
