"""Conversion of Transformers to CTranslate2 models: supported options, and the mapping of the weights."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.errors import SeqloomError, unknown
from seqloom.export.base import Supported
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.nn.blocks import Activation, DecoderBlock, EncoderBlock, FeedForward, Residual
from seqloom.nn.multihead import CrossAttention, SelfAttention
from seqloom.nn.positions import InputPositions, Relative
from seqloom.settings import ModelSettings
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, UNK

QUANTIZATIONS = ("float32", "int8", "int16", "float16", "bfloat16", "int8_float16", "int8_bfloat16")

_SIDES = ("source", "target")
_ROWS = 2048  # of a table of positions without a maximum length
_IN_ATTENTION = ("relative", "rotary")  # positions that act inside every attention layer, at any distance
_ACTIVATIONS: dict[Activation, str] = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}
_SUPPORTED = Supported(
    {
        "positions": ("none", "sinusoidal", "learned", *_IN_ATTENTION),
        "encoder.attention": ("full",),
        "activation": tuple(_ACTIVATIONS),
        "norm": ("layer", "rms"),
        "norm_place": ("before", "after"),
        "residual": (True,),
        "scaled": (True, False),
        "attention_bias": (True,),
        "attention_weights": ("softmax",),
        "tie": ("auto", "all", "target", "none"),
        "tag_positions": (True,),
    }
)


def is_installed() -> bool:
    """Return whether CTranslate2 is installed."""
    return find_spec("ctranslate2") is not None


def library(name: str = "ctranslate2") -> Any:
    """Import and return a module of CTranslate2; raise an error with instructions if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SeqloomError(
            "The engine ctranslate2 needs the package ctranslate2, which is not installed.",
            "pip install 'seqloom[fast]', or use --engine torch",
        ) from error


def obstacle(settings: ModelSettings) -> str | None:
    """Return the reason why CTranslate2 cannot represent the model exactly; None if it can."""
    if reason := _SUPPORTED.obstacle(settings):
        return reason
    assert isinstance(settings, TransformerSettings)
    shape = settings.shape()
    if shape.qk_width != shape.v_width:
        return f"model.qk_width={shape.qk_width} and model.v_width={shape.v_width} (supported: equal widths)"
    return None


def check_can_hold(settings: ModelSettings) -> None:
    """Raise an error if CTranslate2 cannot represent the model."""
    if reason := obstacle(settings):
        raise SeqloomError(
            f"CTranslate2 does not support the model {settings.name}: {reason}.",
            "translate with --engine torch",
        )


def position_rows(settings: TransformerSettings) -> int | None:
    """Return the maximum sequence length of the CTranslate2 model; None: unlimited."""
    if settings.positions in _IN_ATTENTION:
        return None
    return settings.max_length if settings.positions == "learned" else _ROWS


def token_names(tokenizer: Tokenizer) -> list[str]:
    """Return a unique name for every id: its piece, followed by the id if another piece looks the same."""
    names: dict[str, None] = {}
    for id, piece in enumerate(tokenizer.names):
        names[piece if piece not in names else f"{piece}#{id}"] = None
    assert len(names) == tokenizer.size
    return list(names)


def read_names(folder: Path) -> tuple[list[str], list[str]]:
    """Return the token names of source and target from the folder of a model."""
    shared = folder / "shared_vocabulary.json"
    files = (shared, shared) if shared.exists() else (folder / f"{side}_vocabulary.json" for side in _SIDES)
    source, target = (_read_names(file) for file in files)
    return source, target


def _read_names(file: Path) -> list[str]:
    try:
        names: list[str] = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise SeqloomError(f"The vocabulary {file} is missing or damaged.", "export the run again") from error
    return names


def write_model(
    folder: Path,
    model: nn.Module,
    settings: ModelSettings,
    tokenizers: TokenizerPair,
    quantization: str = "float32",
) -> None:
    """Write model.bin, config.json and the vocabularies of CTranslate2 into the folder."""
    if quantization not in QUANTIZATIONS:
        raise unknown("quantization", quantization, QUANTIZATIONS)
    check_can_hold(settings)
    assert isinstance(model, Transformer) and isinstance(settings, TransformerSettings)
    spec = _spec(model, settings)
    source, target = token_names(tokenizers.source), token_names(tokenizers.target)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (target[i] for i in (UNK, BOS, EOS))
    spec.config.decoder_start_token = target[BOS]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def _spec(model: Transformer, settings: TransformerSettings) -> Any:
    """Return the CTranslate2 specification of the model, filled with its weights."""
    specs = library("ctranslate2.specs")
    shape = settings.shape()
    common = {
        "num_heads": shape.heads,
        "pre_norm": shape.norm_place == "before",
        "activation": specs.Activation[_ACTIVATIONS[shape.activation]],
        "ffn_glu": shape.activation == "swiglu",
        "rms_norm": shape.norm == "rms",
        "relative_position": shape.positions == "relative",
        "rotary_dim": 0 if shape.positions == "rotary" else None,  # 0 = the entire head
        "rotary_interleave": False,
        "head_dim": None if shape.heads * shape.qk_width == shape.width else shape.qk_width,
    }
    encoder = specs.TransformerEncoderSpec(len(model.encoder), **common)
    decoder = specs.TransformerDecoderSpec(len(model.decoder), **common)
    rows = position_rows(settings)
    for spec, embedding, positions, norm in (
        (encoder, model.source_embedding, model.source_positions, model.encoder_norm),
        (decoder, model.target_embedding, model.target_positions, model.decoder_norm),
    ):
        part = spec.embeddings[0] if spec is encoder else spec.embeddings
        part.weight = _array(embedding.weight)
        if rows is not None:
            assert isinstance(positions, InputPositions)
            spec.position_encodings.encodings = _array(_table(positions, rows))
        if shape.norm_place == "before":
            _fill_norm(spec.layer_norm, norm)
    _fill_linear(decoder.projection, model.output)
    _fill_blocks(encoder, model.encoder)
    _fill_blocks(decoder, model.decoder)
    return specs.TransformerSpec(encoder, decoder)


def _fill_blocks(spec: Any, blocks: nn.ModuleList) -> None:
    for layer, block in zip(spec.layer, blocks, strict=True):
        assert isinstance(block, EncoderBlock | DecoderBlock)
        assert block.ffn is not None and block.ffn_residual is not None
        _fill_attention(layer.self_attention, block.attention, block.attention_residual)
        if isinstance(block, DecoderBlock):
            _fill_attention(layer.attention, block.cross, block.cross_residual)
        _fill_feed_forward(layer.ffn, block.ffn, block.ffn_residual)


def _fill_attention(spec: Any, attention: SelfAttention | CrossAttention, residual: Residual) -> None:
    """Fill an attention layer; both sides store queries, keys and values of all heads in the same order."""
    matrices: tuple[nn.Linear, ...]
    if isinstance(attention, SelfAttention):
        matrices = (attention.query_key_value, attention.output)
        if isinstance(attention.positions, Relative):
            spec.relative_position_keys = _array(attention.positions.keys)
            spec.relative_position_values = _array(attention.positions.shifts)
    else:
        matrices = (attention.query, attention.key_value, attention.output)
    for part, matrix in zip(spec.linear, matrices, strict=True):
        _fill_linear(part, matrix)
    if not attention.scaled:
        spec.queries_scale = np.float32(1)
    _fill_norm(spec.layer_norm, residual.norm)


def _fill_feed_forward(spec: Any, ffn: FeedForward, residual: Residual) -> None:
    inner = ffn.contract.in_features
    _fill_linear(spec.linear_0, ffn.expand, slice(inner))
    if ffn.activation == "swiglu":  # the activation applies to the gate only
        _fill_linear(spec.linear_0_noact, ffn.expand, slice(inner, 2 * inner))
    _fill_linear(spec.linear_1, ffn.contract)
    _fill_norm(spec.layer_norm, residual.norm)


def _fill_linear(spec: Any, layer: nn.Linear, rows: slice = slice(None)) -> None:
    spec.weight, spec.bias = _array(layer.weight[rows]), _array(layer.bias[rows])


def _fill_norm(spec: Any, norm: nn.Module) -> None:
    """Fill a norm; CTranslate2 uses the same epsilon as seqloom: 1e-5 with the mean, 1e-6 without."""
    spec.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


@torch.no_grad()
def _table(positions: InputPositions, rows: int) -> Tensor:
    """Return the vectors (rows, D) that are added to the embeddings at each position."""
    return positions(torch.zeros(rows, positions.width), torch.arange(rows))  # type: ignore[no-any-return]


def _array(weight: Any) -> NDArray[np.float32]:
    """Return a copy of the weight, because quantisation modifies its input."""
    array: NDArray[np.float32] = weight.detach().cpu().float().numpy().copy()
    return array
