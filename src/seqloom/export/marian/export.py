"""Export of a run to a Marian model for Hugging Face Transformers, verified before it is published."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.export.base import Supported
from seqloom.export.marian.folder import (
    ACTIVATIONS,
    CONFIG,
    GENERATION,
    SOURCE_MODEL,
    TARGET_MODEL,
    TARGET_VOCABULARY,
    TOKENIZER,
    VOCABULARY,
    WEIGHTS,
)
from seqloom.export.marian.load import import_marian
from seqloom.export.marian.weights import (
    BIAS,
    OUTPUT,
    SHARED,
    SOURCE,
    TARGET,
    blocks_to_marian,
    embedding_to_marian,
)
from seqloom.export.plain import README, imports, normalized, readme, reserved_text
from seqloom.export.verify import sentences
from seqloom.files import write_atomically, write_bytes, write_json
from seqloom.languages import LanguagePair
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.outputs import check_new_folder, new_output_folder
from seqloom.run.build import load_model
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.settings import ModelSettings
from seqloom.tensors import write_tensors
from seqloom.text.marian import as_marian
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, UNK

# The SentencePiece space mark, a tab and its internal replacement, and a language code at the start of a line.
_SPECIAL = re.compile(r"[▁\t\ue009]|^>>")
_TOLERANCE = 1e-4  # of a logit: the same sums, possibly in another order
_SUPPORTED = Supported(
    {
        "positions": ("sinusoidal",),
        "encoder.attention": ("full",),
        "activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
        "norm": ("layer",),
        "norm_place": ("after",),
        "residual": (True,),
        "scaled": (True,),
        "attention_bias": (True,),
        "attention_weights": ("softmax",),
        "tie": ("auto", "all", "target", "none"),
        "tag_positions": (True,),
    }
)


_IMPORT = "from transformers import MarianMTModel, MarianTokenizer"
_CODE = """\
tokenizer = MarianTokenizer.from_pretrained(folder)
model = MarianMTModel.from_pretrained(folder)

texts = [{line} for line in lines]
batch = tokenizer(texts, return_tensors="pt", padding=True)
outputs = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
"""
_CHECKED = "read this folder again and compared all logits with those of the original model"
_UNKNOWN = "Empty lines are translated, and unknown symbols are omitted from the output."


@dataclass(frozen=True)
class ExportedMarian:
    """Result of an export and of its verification."""

    folder: Path
    sentences: int
    difference: float  # largest difference between two logits
    notes: list[str]


def obstacle(settings: ModelSettings) -> str | None:
    """Return the reason why a Marian model cannot represent the model exactly; None if it can."""
    if reason := _SUPPORTED.obstacle(settings):
        return reason
    assert isinstance(settings, TransformerSettings)
    shape = settings.shape()
    if not shape.qk_width * shape.heads == shape.v_width * shape.heads == shape.width:
        return (
            f"model.qk_width={shape.qk_width} and model.v_width={shape.v_width} "
            f"(supported: model.width={shape.width} divided by model.heads={shape.heads})"
        )
    return None


def export_marian(
    run: str | Path, out: str | Path, lines: Sequence[str] = (), *, checkpoint: str | None = None
) -> ExportedMarian:
    """Write an equivalent Marian model to `out`, and verify on the lines that it computes the same."""
    opened, folder = Run.open(run), Path(out)
    check_new_folder(folder)
    config = opened.config()
    if reason := obstacle(config.model):
        raise SeqloomError(
            f"{run} cannot be exported as a Marian model: {reason}.",
            "train a model that can be exported with --model transformer-postnorm",
        )
    model, tokenizers = load_model(opened, checkpoint=checkpoint)
    assert isinstance(model, Transformer) and isinstance(config.model, TransformerSettings)
    texts = _comparable(lines or sentences(config, tokenizers.source, None)[0], tokenizers)
    with new_output_folder(folder) as draft:
        _write_tokenizers(draft, tokenizers, config.data.languages)
        write_tensors(draft / WEIGHTS, _weights(model, config.model), metadata={"format": "pt"})
        write_json(draft / CONFIG, _config(model, config.model, tokenizers))
        write_json(draft / GENERATION, _generation(config))
        write_atomically(draft / README, _readme(config, tokenizers))
        difference = _verify(draft, model, tokenizers, config, texts)
    return ExportedMarian(folder, len(texts), difference, _notes(config, tokenizers))


def _write_tokenizers(folder: Path, tokenizers: TokenizerPair, languages: LanguagePair | None) -> None:
    source, target = as_marian(tokenizers.source), as_marian(tokenizers.target)
    write_bytes(folder / SOURCE_MODEL, source.model)
    write_bytes(folder / TARGET_MODEL, target.model)
    write_json(folder / VOCABULARY, {piece: id for id, piece in enumerate(source.vocabulary)})
    if not tokenizers.joint:
        write_json(folder / TARGET_VOCABULARY, {piece: id for id, piece in enumerate(target.vocabulary)})
    options = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": not tokenizers.joint,
        "clean_up_tokenization_spaces": False,
    }
    if languages:
        options |= {"source_lang": languages.source, "target_lang": languages.target}
    write_json(folder / TOKENIZER, options)


def _tied(model: Transformer) -> tuple[bool, bool]:
    """Return whether both embeddings share a matrix, and whether target embedding and output layer do."""
    source, target = model.source_embedding.weight, model.target_embedding.weight
    return source is target, target is model.output.weight


def _weights(model: Transformer, settings: TransformerSettings) -> dict[str, Tensor]:
    """Return the weights by their Marian names; a shared matrix appears once."""
    shared, tied = _tied(model)
    tables = {SHARED if shared else TARGET: model.target_embedding.weight}
    if not shared:
        tables[SOURCE] = model.source_embedding.weight
    if not tied:
        tables[OUTPUT] = model.output.weight
    layers = (len(model.encoder), len(model.decoder))
    weights = {
        **{name: embedding_to_marian(table) for name, table in tables.items()},
        BIAS: model.output.bias.unsqueeze(0),
        **blocks_to_marian(model.state_dict(), layers, settings.width),
    }
    return {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}


def _config(model: Transformer, settings: TransformerSettings, tokenizers: TokenizerPair) -> dict[str, Any]:
    shared, tied = _tied(model)
    sizes: dict[str, Any] = {}
    for side, blocks in (("encoder", model.encoder), ("decoder", model.decoder)):
        sizes |= {
            f"{side}_layers": len(blocks),
            f"{side}_attention_heads": settings.heads,
            f"{side}_ffn_dim": settings.ffn,
        }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": settings.width,
        **sizes,
        "activation_function": settings.activation,
        "scale_embedding": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "static_position_embeddings": True,
        "max_position_embeddings": settings.max_length,
        "dropout": settings.dropout,
        "activation_dropout": settings.dropout,
        "attention_dropout": 0.0,
        "vocab_size": tokenizers.source.size,
        "decoder_vocab_size": tokenizers.target.size,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": tied,
        **_symbols(),
        "dtype": "float32",
    }


def _symbols() -> dict[str, Any]:
    return {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "decoder_start_token_id": BOS,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,  # an output that is too long is truncated without EOS
    }


def _generation(config: Config) -> dict[str, Any]:
    assert isinstance(config.model, TransformerSettings)
    search = config.search
    return {
        **_symbols(),
        "bad_words_ids": [[PAD], [BOS]],  # never part of an output
        "num_beams": search.beam,
        "length_penalty": search.length_penalty,
        "early_stopping": search.stop == "count",
        "max_length": _longest(config) + 1,  # includes the start symbol
    }


def _longest(config: Config) -> int:
    """Return the maximum length of an output, including EOS."""
    assert isinstance(config.model, TransformerSettings)
    return min(config.search.max_length(config.data.max_length), config.model.max_length - 1)


def _readme(config: Config, tokenizers: TokenizerPair) -> str:
    """Return the README with the code to translate with transformers."""
    code = imports(_CODE.format(line=normalized(tokenizers.source)), _IMPORT)
    notes = [*reserved_text(tokenizers.source), _UNKNOWN, *_notes(config, tokenizers)]
    return readme(
        "Translation model for transformers",
        code,
        notes,
        install="transformers torch sentencepiece",
        checked=_CHECKED,
    )


def _comparable(lines: Sequence[str], tokenizers: TokenizerPair) -> list[str]:
    """Return the normalised lines without those that a Marian tokenizer interprets differently."""
    texts = [tokenizers.source.normalize(line) for line in lines]
    if plain := [text for text in texts if text and not _SPECIAL.search(text)]:
        return plain
    raise SeqloomError(
        "There is no line on which to compare the run and the exported model.",
        "name a file with plain text lines: --verify FILE",
    )


def _verify(
    folder: Path, model: Transformer, tokenizers: TokenizerPair, config: Config, texts: list[str]
) -> float:
    """Return the largest logit difference between the run and the exported folder; raise if it is too large."""
    with TemporaryDirectory() as temporary:
        imported = import_marian(folder, Path(temporary) / "run").run
        read_back, read_tokenizers = load_model(imported)
    assert isinstance(read_back, Transformer)
    sources = [tokenizers.source.encode(text) for text in texts]
    if [read_tokenizers.source.encode(text) for text in texts] != sources:
        raise _differs("its tokenizer encodes a line differently")
    one, two = (TorchTranslator(each, tokenizers, config.search) for each in (model, read_back))
    outputs = [best[0].text for best in one.translate(texts, beam=1)]
    if [best[0].text for best in two.translate(texts, beam=1)] != outputs:
        raise _differs("it translates a line differently")
    targets = [tokenizers.target.encode(output) for output in outputs]
    known = [ids for ids in targets if UNK not in ids]  # Marian omits unknown symbols
    if any(read_tokenizers.target.decode(ids) != tokenizers.target.decode(ids).strip() for ids in known):
        raise _differs("its tokenizer decodes a line differently")
    difference = _largest_difference(model, read_back, sources, targets)
    if not difference <= _TOLERANCE:
        raise _differs(f"a logit differs by {difference:.2g}")
    return difference


@torch.inference_mode()
def _largest_difference(
    one: Transformer, two: Transformer, sources: list[list[int]], targets: list[list[int]]
) -> float:
    batch = collate_ids(sources, targets, range(len(sources)))
    differences = (one(batch) - two(batch)).abs()[batch.target_mask]
    return float(differences.max())


def _differs(how: str) -> SeqloomError:
    return SeqloomError(
        f"The exported model differs from the run: {how}. Nothing was written.",
        "this is a bug in seqloom; please report it with the run's config.yaml",
    )


def _notes(config: Config, tokenizers: TokenizerPair) -> list[str]:
    notes = []
    if tokenizers.source.settings.normalizer.normalize == "nfc":
        notes.append("Text must be in Unicode form NFC; the code in README.md takes care of it.")
    if config.search.stop != "count":
        notes.append(f"Beam search uses a stop rule other than search.stop={config.search.stop}.")
    if config.search.max_length_factor:
        notes.append(f"The maximum length of an output is {_longest(config)} tokens for every line.")
    return notes
