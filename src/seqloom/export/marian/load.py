"""Import of Marian models, such as those of OPUS-MT, as run directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.export.imported import write_imported
from seqloom.export.marian.folder import (
    CONFIG,
    SOURCE_MODEL,
    TARGET_MODEL,
    MarianConfig,
    Vocabulary,
    read_languages,
    read_options,
    read_vocabularies,
    weights_file,
)
from seqloom.export.marian.weights import (
    BIAS,
    NEVER,
    OUTPUT,
    SHARED,
    SOURCE,
    TARGET,
    bias_from_marian,
    blocks_from_marian,
    embedding_from_marian,
)
from seqloom.outputs import check_new_folder
from seqloom.run.build import build_model
from seqloom.run.config import from_tree
from seqloom.run.directory import Run
from seqloom.tensors import read_tensors
from seqloom.text.marian import MarianSettings, MarianTokenizer
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import weights_of
from seqloom.types import BOS, PAD

# Search options of Transformers that seqloom does not have, and the values with which they have no effect.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "early_stopping": (False, True),  # True is our search.stop=count
    "forced_bos_token_id": (),
    "min_length": (0,),
    "no_repeat_ngram_size": (0,),
    "num_beam_groups": (1,),
    "repetition_penalty": (1.0,),
}


@dataclass(frozen=True)
class ImportedMarian:
    """Result of an import: the new run, its size, and notes for the user."""

    run: Run
    parameters: int
    vocabulary: int
    notes: list[str]


def import_marian(folder: str | Path, out: str | Path) -> ImportedMarian:
    """Create a run in `out` that is equivalent to the Marian model in `folder`."""
    folder, run = Path(folder), Run(Path(out))
    check_new_folder(run.folder)
    options = read_options(folder)
    marian = MarianConfig.checked(options, "config", where=str(folder))
    if marian.obstacle:
        raise SeqloomError(
            f"The model in {folder} cannot be imported: {marian.obstacle}.",
            "use a Marian model like those of OPUS-MT",
        )
    vocabularies = read_vocabularies(folder, marian)
    tokenizers = _tokenizers(folder, *vocabularies)
    tree = {
        "data": {"languages": read_languages(folder)},
        "model": marian.model_options(),
        "search": marian.search_options(),
    }
    config = from_tree(tree, where=str(folder / CONFIG))
    model = build_model(config, tokenizers)
    _fill(model, weights_file(folder), marian, *vocabularies)
    write_imported(run, config, tokenizers, weights_of(model))
    notes = [
        f"{name} = {options[name]} is ignored: seqloom has no such search option"
        for name, neutral in _UNSUPPORTED.items()
        if name in options and options[name] not in neutral
    ]
    count = sum(weight.numel() for weight in model.parameters())
    return ImportedMarian(run, count, tokenizers.target.size, notes)


def _tokenizers(folder: Path, source: Vocabulary, target: Vocabulary) -> TokenizerPair:
    first = _tokenizer(folder / SOURCE_MODEL, source)
    second = _tokenizer(folder / TARGET_MODEL, target)
    return TokenizerPair(first, first if first.fingerprint == second.fingerprint else second)


def _tokenizer(path: Path, vocabulary: Vocabulary) -> MarianTokenizer:
    try:
        return MarianTokenizer(path.read_bytes(), MarianSettings(vocabulary=vocabulary.pieces))
    except (OSError, RuntimeError, ValueError, IndexError) as error:
        raise SeqloomError(
            f"{path} is missing or not a SentencePiece model: {error}.", "copy the folder again"
        ) from error


def _fill(model: nn.Module, file: Path, config: MarianConfig, source: Vocabulary, target: Vocabulary) -> None:
    """Load the Marian weights into our model."""
    tensors = {name: tensor.float() for name, tensor in read_tensors(file).items()}
    hint = "config.json and the weights belong to different models; copy the folder again"
    try:
        weights = _weights(tensors, config, source, target)
    except (KeyError, IndexError) as error:
        raise SeqloomError(f"{file} does not match {CONFIG}: a weight is missing ({error}).", hint) from error
    for name, weight in model.state_dict().items():
        given, expected = tuple(weights[name].shape), tuple(weight.shape)
        if given != expected:
            raise SeqloomError(
                f"{file} does not match {CONFIG}: {name} has shape {given}, expected {expected}.", hint
            )
    model.load_state_dict(weights)


def _weights(
    marian: Mapping[str, Tensor], config: MarianConfig, source: Vocabulary, target: Vocabulary
) -> dict[str, Tensor]:
    """Return all weights by our names; raise KeyError if one is missing."""
    if config.tie == "all":  # the file contains the shared matrix once, under any of its names
        first = next((name for name in (SHARED, TARGET, SOURCE, OUTPUT) if name in marian), SHARED)
        encoder = decoder = marian[first]
    else:
        encoder, decoder = marian[SOURCE], marian[TARGET]
    output = marian[OUTPUT] if config.tie == "none" else decoder
    bias = bias_from_marian(marian[BIAS] if BIAS in marian else torch.zeros(len(output)), target.rows)
    if config.renormalize_logits:  # their search normalises over the symbols that it can generate
        bias[[PAD, BOS]] = NEVER
    return {
        "source_embedding.weight": embedding_from_marian(encoder, source.rows),
        "target_embedding.weight": embedding_from_marian(decoder, target.rows),
        "output.weight": embedding_from_marian(output, target.rows),
        "output.bias": bias,
        **blocks_from_marian(marian, (config.encoder_layers, config.decoder_layers), config.d_model),
    }
