"""Properties of attention for long inputs; its formulas are tested in tests/oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.errors import SeqloomError
from seqloom.models.language import LanguageModelSettings
from seqloom.models.stack import EncoderSettings
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.nn.blocks import BlockShape, EncoderBlock
from seqloom.nn.longattention import BlockSparseAttention, LinformerAttention, WindowAttention
from seqloom.nn.multihead import SelfAttention
from seqloom.types import Vocabularies, lengths_to_mask

KINDS: dict[str, Callable[[], SelfAttention]] = {
    "linformer": lambda: LinformerAttention(8, 2, 4, 4, rank=6, max_length=4096, per_head=False),
    "linformer-heads": lambda: LinformerAttention(8, 2, 4, 4, rank=6, max_length=4096, per_head=True),
    "linformer-separate": lambda: LinformerAttention(8, 2, 4, 4, rank=6, max_length=4096, separate=True),
    "bigbird": lambda: BlockSparseAttention(8, 2, 4, 4, block=4, global_blocks=1, random_blocks=2),
    "blocks": lambda: BlockSparseAttention(8, 2, 4, 4, block=4, neighbours=0),
    "window": lambda: WindowAttention(8, 2, 4, 4, window=3, block=4),
}


@pytest.fixture(params=list(KINDS))
def layer(request: pytest.FixtureRequest) -> SelfAttention:
    torch.manual_seed(1)
    return KINDS[request.param]()


def test_a_sentence_gives_the_same_output_in_any_batch(layer: SelfAttention) -> None:
    layer.double()
    x, lengths = torch.randn(3, 90, 8, dtype=torch.float64), torch.tensor([23, 50, 1])
    for width in (50, 63, 90):
        out = layer(x[:, :width], mask=lengths_to_mask(lengths, width))
        for row, length in enumerate(lengths.tolist()):
            alone = layer(x[row : row + 1, :length])
            assert_close(out[row, :length], alone[0], rtol=0, atol=1e-10)


def test_padding_keeps_every_output_and_gradient_finite(layer: SelfAttention) -> None:
    x = torch.randn(2, 90, 8, requires_grad=True)
    out = layer(x, mask=lengths_to_mask(torch.tensor([90, 2]), 90))  # most blocks of a row are padding
    assert out.isfinite().all()
    out.square().sum().backward()
    for tensor in (x, *layer.parameters()):
        assert tensor.grad is not None and tensor.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["bigbird", "blocks", "window"])
def test_padding_attends_to_something(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # For a query without keys, some of torch's kernels return NaN and some zero, so there must be none.
    layer, masks = KINDS[kind](), []
    fused = layer.fused

    def watch(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        masks.append(mask)
        return fused(q, k, v, mask)

    monkeypatch.setattr(layer, "fused", watch)
    layer(torch.randn(2, 90, 8), mask=lengths_to_mask(torch.tensor([90, 2]), 90))
    assert masks and all(mask.any(dim=-1).all() for mask in masks)


def test_every_weight_has_a_gradient(layer: SelfAttention) -> None:
    layer(torch.randn(1, 60, 8)).square().sum().backward()
    for name, weight in layer.named_parameters():
        assert weight.grad is not None and weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize("masked", [True, False])
def test_memory_for_the_gradient_is_linear_in_the_length(layer: SelfAttention, masked: bool) -> None:
    def largest(length: int) -> int:
        sizes = [0]

        def keep(tensor: Tensor) -> Tensor:
            sizes.append(tensor.untyped_storage().nbytes())
            return tensor

        mask = torch.ones(1, length, dtype=torch.bool) if masked else None
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            layer(torch.randn(1, length, 8), mask=mask)
        return max(sizes)

    assert largest(4096) <= 4.1 * largest(1024)


def test_products_of_queries_and_keys_are_linear_in_the_length(
    layer: SelfAttention, monkeypatch: pytest.MonkeyPatch
) -> None:
    products, fused = 0, layer.fused

    def count(q: Tensor, k: Tensor, *rest: Any, **options: Any) -> Tensor:
        nonlocal products
        products += q[..., 0].numel() * k.shape[-2]
        return fused(q, k, *rest, **options)

    monkeypatch.setattr(layer, "fused", count)
    layer(torch.randn(1, 1024, 8))
    short, products = products, 0
    layer(torch.randn(1, 4096, 8))
    assert 0 < products <= 4.1 * short


def test_no_tensor_of_size_n_times_n_is_created(layer: SelfAttention) -> None:
    length, seen = 2048, 0

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal seen
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(tensor, Tensor):
                    seen = max(seen, tensor.numel())
            return out

    x = torch.randn(1, length, 8, requires_grad=True)
    with Watch():  # type: ignore[no-untyped-call]
        layer(x, mask=torch.ones(1, length, dtype=torch.bool)).sum().backward()
    assert 0 < seen < length * length / 8


def test_linformer_refuses_sources_above_the_maximum_length() -> None:
    layer = LinformerAttention(8, 2, 4, 4, rank=3, max_length=10, per_head=False)
    layer(torch.randn(1, 10, 8))
    with pytest.raises(SeqloomError) as caught:
        layer(torch.randn(1, 11, 8))
    assert caught.value.message == "Linformer attention takes sources of up to 10 tokens, got 11."
    assert caught.value.hint == "train with a higher model.max_length"


def test_linformer_projects_short_and_long_sentences_to_the_same_size(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    layer, sizes = LinformerAttention(8, 2, 4, 4, rank=64, max_length=4096, per_head=True), []

    def watch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        sizes.append(v.detach().std().item())
        return q

    monkeypatch.setattr(layer, "fused", watch)
    for length in (16, 4096):
        layer(torch.randn(4, length, 8))
    assert sizes[0] / sizes[1] == pytest.approx(1, abs=0.2)


def test_random_blocks_depend_on_the_layer_only() -> None:
    def draws(seed: int) -> Tensor:
        return BlockSparseAttention(8, 2, 4, 4, block=4, random_blocks=3, seed=seed).draws

    assert torch.equal(draws(0), draws(0))
    assert not torch.equal(draws(0), draws(1))
    layer = BlockSparseAttention(8, 2, 4, 4, block=4, random_blocks=3)
    assert "draws" not in layer.state_dict()
    assert layer.bfloat16().draws.dtype == torch.long


def test_causal_attention_is_refused(layer: SelfAttention) -> None:
    with pytest.raises(AssertionError):
        layer(torch.randn(1, 5, 8), causal=True)


@pytest.mark.parametrize(
    "settings, kind",
    [
        ({}, SelfAttention),
        ({"attention": "linformer", "rank": 3}, LinformerAttention),
        ({"attention": "bigbird", "block": 2}, BlockSparseAttention),
        ({"attention": "window", "window": 5, "block": 2}, WindowAttention),
    ],
)
def test_an_encoder_block_uses_the_selected_attention(settings: dict[str, Any], kind: type) -> None:
    shape = BlockShape(width=8, heads=2, qk_width=4, v_width=4, ffn=16, dropout=0.0, positions="rotary")
    block = EncoderBlock(shape, EncoderSettings.model_validate(settings).kind(0, max_length=40))
    assert type(block.attention) is kind
    x = torch.randn(2, 20, 8)
    assert block(x, torch.ones(2, 20, dtype=torch.bool)).shape == x.shape


def test_the_option_reaches_every_encoder_layer_and_no_decoder_layer() -> None:
    settings = TransformerSettings.model_validate(
        {"size": "tiny", "max_length": 77, "encoder": {"attention": "linformer", "rank": 5, "sharing": "head"}}
    )
    model = Transformer(settings, Vocabularies(11, 11, True))
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters() if name.endswith("projection")}
    assert shapes == {f"encoder.{layer}.attention.projection": (4, 5, 77) for layer in range(2)}


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("sharing, matrices", [("head", 8), ("layer", 2), ("model", 1)])
def test_projections_are_shared_by_name(sharing: str, matrices: int, separate: bool) -> None:
    options = {"attention": "linformer", "rank": 5, "sharing": sharing, "separate": separate}
    settings = TransformerSettings.model_validate({"size": "tiny", "max_length": 77, "encoder": options})
    model = Transformer(settings, Vocabularies(11, 11, True))
    weights = [weight for name, weight in model.named_parameters() if name.endswith("projection")]
    assert sum(weight.shape[0] for weight in weights) == matrices * (2 if separate else 1)
    assert all(weight.shape[1:] == (5, 77) for weight in weights)


def test_per_head_is_the_former_name_of_sharing_by_head() -> None:
    assert EncoderSettings.model_validate({"per_head": True}).sharing == "head"
    assert EncoderSettings.model_validate({"per_head": False}).sharing == "layer"


@pytest.mark.parametrize(
    "name, values, words",
    [
        ("lm", {"decoder": {"attention": "linformer"}}, "must not see the future"),
        ("lm", {"decoder": {"attention": "window"}, "positions": "alibi"}, "supports model.positions none"),
        (
            "lm",
            {"decoder": {"attention": "bigbird"}, "attention_weights": "raw"},
            "weights=raw",
        ),
        ("prefix-lm", {"decoder": {"attention": "window"}, "prefix": "both"}, "model.prefix=both"),
    ],
)
def test_a_language_model_refuses_what_is_not_causal(name: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(SeqloomError) as caught:
        LanguageModelSettings.checked({"name": name, **values}, "model")
    assert words in caught.value.message


def test_every_layer_draws_different_blocks() -> None:
    settings = TransformerSettings.model_validate({"size": "tiny", "encoder": {"attention": "bigbird"}})
    first, second = (buffer for buffer in Transformer(settings, Vocabularies(11, 11, True)).encoder.buffers())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("attention", ["linformer", "bigbird", "window"])
@pytest.mark.parametrize("positions", ["relative", "alibi", "t5"])
def test_positions_that_need_all_pairs_are_refused(attention: str, positions: str) -> None:
    values = {"positions": positions, "encoder": {"attention": attention}}
    with pytest.raises(SeqloomError) as caught:
        TransformerSettings.checked(values, "model")
    assert caught.value.message == (
        f"model.encoder.attention={attention} supports model.positions none, sinusoidal, learned, rotary, "
        f"not {positions} (in the options)."
    )
