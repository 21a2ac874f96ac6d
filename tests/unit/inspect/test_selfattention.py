"""Self-attention of all heads, compared with NumPy and with the values that the model computes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.inspect.heads import HeadAttention
from seqloom.inspect.selfattention import self_attention
from seqloom.nn.longattention import BlockSparseAttention, LinformerAttention, WindowAttention
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import PositionName, attention_positions
from seqloom.run.load import load_run
from support.runs import SharedRuns

TEXT = "a man is running."


@pytest.fixture(scope="module")
def folder(shared_runs: SharedRuns) -> Path:
    return shared_runs.build("lm", "mlm", "pairs", "transformer")


def _by_hand(attention: SelfAttention, x: torch.Tensor, allowed: np.ndarray) -> np.ndarray:
    """Return the weights (H, T, T) of x (T, D), computed with NumPy."""
    matrix, bias = (part.detach().double().numpy() for part in attention.query_key_value.parameters())
    q, k = np.split(x.double().numpy() @ matrix.T + bias, 3, axis=-1)[:2]
    heads = []
    for one_q, one_k in zip(np.split(q, attention.heads, 1), np.split(k, attention.heads, 1), strict=True):
        scores = np.where(allowed, one_q @ one_k.T / math.sqrt(one_q.shape[1]), -np.inf)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        heads.append(powers / powers.sum(axis=1, keepdims=True))
    return np.stack(heads)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("transformer", "encoder", "1 2"),
        ("transformer", "decoder", "1 2"),
        ("lm", "decoder", TEXT),
        ("pairs", "decoder", TEXT),
        ("mlm", "encoder", TEXT),
    ],
)
def test_weights_of_the_first_layer_equal_those_by_hand(folder: Path, name: str, kind: Any, text: str) -> None:
    opened = load_run(folder / name, device="cpu")
    found = self_attention(opened, text, kind=kind)
    assert np.allclose(found.weights.sum(axis=-1), 1, atol=1e-6)
    block: Any = getattr(opened.model, kind)[0]
    inputs: list[torch.Tensor] = []
    hook = block.attention.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    self_attention(opened, text, kind=kind)
    hook.remove()
    length = len(found.target)
    allowed = np.ones((length, length), bool)
    if kind == "decoder":
        allowed = np.tril(allowed)
        if name == "pairs":
            allowed[:, : found.target.index("<s>")] = True  # both directions inside the source
        assert (found.weights[..., ~allowed] == 0).all()
    assert np.allclose(found.weights[0], _by_hand(block.attention, inputs[-1][0], allowed), atol=1e-6)


def _attention(name: str, positions: PositionName) -> SelfAttention:
    shape = (8, 2, 4, 4)
    encoding = attention_positions(positions, 2, 4, 4, causal=False, scaled=True, clip=3)
    if name == "window":
        return WindowAttention(*shape, window=5, block=4, positions=encoding)
    if name == "bigbird":
        return BlockSparseAttention(*shape, block=3, global_blocks=1, random_blocks=2, positions=encoding)
    if name == "linformer":
        return LinformerAttention(*shape, rank=5, max_length=40, per_head=True, positions=encoding)
    return SelfAttention(*shape, positions=encoding)


@pytest.mark.parametrize(
    ("name", "positions"),
    [("full", "none"), ("full", "alibi"), ("full", "t5"), ("full", "rotary"), ("full", "kerple")]
    + [(name, positions) for name in ("window", "bigbird") for positions in ("none", "rotary")],
)
def test_weights_times_values_are_the_output(name: str, positions: PositionName) -> None:
    torch.manual_seed(3)
    attention, x = _attention(name, positions), torch.randn(2, 31, 8)
    real = torch.arange(31) < torch.tensor([[31], [26]])
    with torch.no_grad():
        weights = attention.weights(x, mask=real)
        v = attention._project(x, torch.arange(31))[2]
        expected = attention.output(attention.join(weights @ v))
        assert torch.allclose(attention(x, mask=real)[real], expected[real], atol=1e-5)
    assert torch.allclose(weights.sum(-1)[real[:, None].expand(-1, 2, -1)], torch.ones(()), atol=1e-5)


def test_linformer_weights_are_those_of_the_projected_keys() -> None:
    torch.manual_seed(3)
    attention, x = _attention("linformer", "none"), torch.randn(1, 31, 8)
    with torch.no_grad():
        weights = attention.weights(x)
        values = attention._project_to_rank(x, None)[2]  # type: ignore[operator]
        assert weights.shape == (1, 2, 31, 5)
        assert torch.allclose(attention(x), attention.output(attention.join(weights @ values)), atol=1e-5)


@pytest.mark.parametrize("name", ["full", "window", "bigbird"])
def test_visible_keys_are_those_that_change_the_output(name: str) -> None:
    torch.manual_seed(3)
    attention, real = _attention(name, "none").double(), torch.arange(31) < 28
    x = torch.randn(1, 31, 8, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: attention(x, mask=real[None]).sum(-1)[0], x)
    changes = jacobian[:, 0].abs().sum(-1) > 0  # (queries, keys)
    visible = attention.visibility(real[None])[0] > 0
    rest = ~torch.eye(31, dtype=torch.bool)  # a query always depends on its own vector
    rest[~real] = False
    assert torch.equal(changes[rest], visible[rest])


def test_entropy_is_zero_for_one_token_and_log_n_for_all() -> None:
    weights = np.zeros((1, 3, 2, 4))
    weights[0, 0, :, 1] = 1
    weights[0, 1] = 0.25
    weights[0, 2] = 0.1  # on the source; the rest is on the target
    found = HeadAttention(tuple("abcd"), tuple("xy"), weights).entropy
    assert found[0] == pytest.approx([0, math.log(4), math.log(4)])
