"""Self-attention of every layer and head of an encoder or a decoder for one text."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.inspect.forced_text import forced_text
from seqloom.inspect.heads import AttentionKind, HeadAttention, Target
from seqloom.nn.multihead import SelfAttention
from seqloom.run.load import LoadedRun, use_of
from seqloom.types import DependencyTree

SelfKind = Literal["encoder", "decoder"]


def check_is_distribution(opened: LoadedRun) -> None:
    """Raise an error if the attention weights of the model do not sum to 1."""
    if getattr(opened.config.model, "attention_weights", "softmax") == "raw":
        raise SeqloomError(
            "The attention weights of this model are raw scores (model.attention_weights=raw): they do not sum "
            "to 1 and cannot be shown as a distribution.",
            "use a model with model.attention_weights=softmax",
        )


def default_kind(opened: LoadedRun) -> AttentionKind:
    """Return the kind of attention to show if none is chosen."""
    kinds: dict[str, AttentionKind] = {"generate": "decoder", "fill": "encoder"}
    return kinds.get(use_of(opened.config), "cross")


@torch.inference_mode()
def self_attention(
    opened: LoadedRun,
    text: str,
    target: Target = None,
    *,
    kind: SelfKind,
    heads: DependencyTree | None = None,
) -> HeadAttention:
    """Return the self-attention of the encoder for a text, or of the decoder for a text and its target.

    The default target is the model's own output. A language model reads source and target as one sequence.
    """
    check_is_distribution(opened)
    modules = _attention_modules(opened, kind)
    if kind == "encoder" and target is not None:
        raise SeqloomError("The attention of an encoder does not depend on a target.", "leave the target out")
    forced = forced_text(opened, text, target, heads=heads, with_target=kind == "decoder")
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], options: dict[str, Tensor]) -> None:
        assert isinstance(module, SelfAttention)
        found.append(module.weights(*inputs, **options)[0])  # type: ignore[arg-type]

    hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in modules]
    try:
        forced.run()
    finally:
        for hook in hooks:
            hook.remove()
    weights = torch.stack(found).double().cpu().numpy()  # (L, H, T, S)
    queries, keys = weights.shape[-2:]
    tokens = forced.tokens(queries)
    projected = tuple(f"key {number}" for number in range(1, keys + 1))
    return HeadAttention(tokens if keys == queries else projected, tokens, weights, kind)


def has_side(opened: LoadedRun, kind: SelfKind) -> bool:
    """Return whether the model has self-attention on this side."""
    return bool(_modules_of(opened, kind))


def _modules_of(opened: LoadedRun, kind: SelfKind) -> list[SelfAttention]:
    side = getattr(opened.model, kind, None)
    modules = side.modules() if isinstance(side, nn.Module) else ()
    return [module for module in modules if isinstance(module, SelfAttention)]


def _attention_modules(opened: LoadedRun, kind: SelfKind) -> list[SelfAttention]:
    found = _modules_of(opened, kind)
    if not found:
        raise SeqloomError(
            f"The model {opened.config.model.name} has no self-attention in "
            f"{'an encoder' if kind == 'encoder' else 'a decoder'}.",
            "choose another --kind (cross, encoder or decoder) or a Transformer",
        )
    return found
