"""Convert the weights of a run to a Hugging Face model and to an OpenNMT-py checkpoint."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from opennmt_translate import SPECIAL
from safetensors.torch import save_file
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.export.marian.weights import BIAS, SHARED, alternating, blocks_to_marian, embedding_to_marian
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.nn.positions import sinusoids
from seqloom.run.build import load_model
from seqloom.run.directory import Run
from seqloom.settings import ModelSettings
from seqloom.types import BOS, EOS, PAD

_POSITIONS = 1024  # in the table of the Hugging Face model
_OPENNMT_POSITIONS = 5000  # the size of its own table


def obstacle(settings: ModelSettings, *, joint: bool) -> str | None:
    """Return the reason why the other toolkits cannot represent the model exactly, or None if they can."""
    if not isinstance(settings, TransformerSettings):
        return f"model.name is {settings.name}, not transformer"
    shape = settings.shape()
    head = shape.width // shape.heads
    choices: dict[str, tuple[object, object]] = {
        "text.joint": (joint, True),
        "model.tie": ("all" if settings.tie == "auto" else settings.tie, "all"),
        "model.norm": (shape.norm, "layer"),
        "model.norm_place": (shape.norm_place, "before"),
        "model.positions": (shape.positions, "sinusoidal"),
        "model.activation": (shape.activation, "relu"),
        "model.encoder.attention": (settings.encoder.attention, "full"),
        "model.residual": (shape.residual, True),
        "model.scaled": (shape.scaled, True),
        "model.qk_width": (shape.qk_width, head),
        "model.v_width": (shape.v_width, head),
    }
    different = (
        f"{name} is {got}, not {expected}" for name, (got, expected) in choices.items() if got != expected
    )
    return next(different, None)


def _open(run: Path) -> tuple[Transformer, TransformerSettings]:
    model, tokenizers = load_model(Run.open(run))
    settings = Run.open(run).config().model
    if reason := obstacle(settings, joint=tokenizers.joint):
        raise SeqloomError(
            f"The other toolkits cannot represent the model of {run}: {reason}.",
            "Use `--model transformer` with its defaults and a joint vocabulary, or exclude them with --only.",
        )
    assert isinstance(model, Transformer) and isinstance(settings, TransformerSettings)
    return model, settings


def write_huggingface(run: Path, folder: Path) -> None:
    """Write the run as a Pegasus model, which is a Marian model with normalisation before each block."""
    model, settings = _open(run)
    width, layers = settings.width, (len(model.encoder), len(model.decoder))
    order = alternating(width).argsort()  # sines first, then cosines
    weights = {
        SHARED: embedding_to_marian(model.target_embedding.weight),
        BIAS: model.output.bias.unsqueeze(0),
        **blocks_to_marian(model.state_dict(), layers, width),
    }
    for side, norm in (("encoder", model.encoder_norm), ("decoder", model.decoder_norm)):
        weights[f"model.{side}.embed_positions.weight"] = sinusoids(torch.arange(_POSITIONS), width)[:, order]
        for part, tensor in norm.named_parameters():
            weights[f"model.{side}.layer_norm.{part}"] = tensor[order]
    sizes = {
        f"{side}_{name}": value
        for side, count in zip(("encoder", "decoder"), layers, strict=True)
        for name, value in (
            ("layers", count),
            ("attention_heads", settings.heads),
            ("ffn_dim", settings.ffn),
        )
    }
    config = {
        "architectures": ["PegasusForConditionalGeneration"],
        "model_type": "pegasus",
        "d_model": width,
        **sizes,
        "activation_function": settings.activation,
        "scale_embedding": True,
        "max_position_embeddings": _POSITIONS,
        "vocab_size": model.output.out_features,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    copies = {name: tensor.detach().clone().contiguous() for name, tensor in weights.items()}
    save_file(copies, folder / "model.safetensors", metadata={"format": "pt"})


def write_opennmt(run: Path, file: Path) -> None:
    """Write the run as an OpenNMT-py checkpoint whose words are our ids."""
    model, settings = _open(run)
    size = model.output.out_features
    words = [*SPECIAL, *map(str, range(len(SPECIAL), size))]
    weights = _opennmt_weights(model, settings.width)
    checkpoint = {
        "model": {name: tensor.detach().clone() for name, tensor in weights.items()},
        "generator": {part: tensor.detach().clone() for part, tensor in model.output.named_parameters()},
        "vocab": {"src": words, "tgt": words, "data_task": "seq2seq", "decoder_start_token": SPECIAL[BOS]},
        "opt": Namespace(**_opennmt_options(model, settings)),
    }
    torch.save(checkpoint, file)


def _opennmt_options(model: Transformer, settings: TransformerSettings) -> dict[str, Any]:
    return {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "position_encoding_type": "SinusoidalInterleaved",
        "enc_layers": len(model.encoder),
        "dec_layers": len(model.decoder),
        "hidden_size": settings.width,
        "word_vec_size": settings.width,
        "heads": settings.heads,
        "transformer_ff": settings.ffn,
        "add_qkvbias": True,
        "add_ffnbias": True,
        "norm_eps": 1e-5,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        # Training options that are required to build the model.
        "dropout": [0.0],
        "attention_dropout": [0.0],
        "freeze_word_vecs_enc": False,
        "freeze_word_vecs_dec": False,
        "optim": "adam",
        "world_size": 1,
        "gpu_ranks": [],
    }


def _opennmt_weights(model: Transformer, width: int) -> dict[str, Tensor]:
    """Return the weights under the names of OpenNMT-py, without the output layer."""
    weights = {}
    sides = (("encoder", "transformer"), ("decoder", "transformer_layers"))
    state = model.state_dict()
    for side, blocks in sides:
        weights[f"{side}.embeddings.make_embedding.emb_luts.0.weight"] = model.target_embedding.weight
        positions = sinusoids(torch.arange(_OPENNMT_POSITIONS), width)
        weights[f"{side}.embeddings.make_embedding.pe.pe"] = positions.unsqueeze(1)
        for part in ("weight", "bias"):
            weights[f"{side}.layer_norm.{part}"] = state[f"{side}_norm.{part}"]
            for layer in range(len(getattr(model, side))):
                for ours, theirs in _LINKS[side].items():
                    parts = state[f"{side}.{layer}.{ours}.{part}"].chunk(len(theirs))
                    for name, tensor in zip(theirs, parts, strict=True):
                        weights[f"{side}.{blocks}.{layer}.{name}.{part}"] = tensor
    return weights


def _attention(name: str, *parts: str) -> tuple[str, ...]:
    return tuple(f"{name}.linear_{part}" for part in parts)


_ENCODER = {
    "attention.query_key_value": _attention("self_attn", "query", "keys", "values"),
    "attention.output": ("self_attn.final_linear",),
    "ffn.expand": ("feed_forward.w_1",),
    "ffn.contract": ("feed_forward.w_2",),
    "ffn_residual.norm": ("feed_forward.layer_norm",),
}
_LINKS: dict[str, dict[str, tuple[str, ...]]] = {
    "encoder": {**_ENCODER, "attention_residual.norm": ("layer_norm",)},
    "decoder": {
        **_ENCODER,
        "attention_residual.norm": ("layer_norm_1",),
        "cross.query": _attention("context_attn", "query"),
        "cross.key_value": _attention("context_attn", "keys", "values"),
        "cross.output": ("context_attn.final_linear",),
        "cross_residual.norm": ("layer_norm_2",),
    },
}
