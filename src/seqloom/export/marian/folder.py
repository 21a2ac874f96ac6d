"""Files of a Marian model folder as written by Hugging Face Transformers (the format of OPUS-MT)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from seqloom.errors import SeqloomError
from seqloom.files import is_special, read_object
from seqloom.languages import LanguagePair, language_code
from seqloom.settings import Settings

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
WEIGHTS = "model.safetensors"

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}  # Marian → seqloom
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")  # the pieces of PAD, BOS, EOS and UNK
MAX_PIECES = 10_000_000  # in a vocabulary; a file that claims more is damaged
_NO_LANGUAGE = ("mul", "mis", "und", "zxx")  # codes for several languages or none
_COPY_AGAIN = "its files belong to different models; copy the folder again"


class MarianConfig(Settings):
    """Options read from config.json and generation_config.json, with the defaults of Transformers."""

    model_config = ConfigDict(extra="ignore")

    model_type: str
    d_model: int = Field(ge=2, multiple_of=2)
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    activation_function: str = "gelu"
    scale_embedding: bool = False
    dropout: float = 0.1
    vocab_size: int = Field(ge=1, le=MAX_PIECES)
    decoder_vocab_size: int | None = Field(None, ge=1, le=MAX_PIECES)
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    max_position_embeddings: int = 1024
    num_beams: int = 1
    length_penalty: float = 1.0
    max_length: int | None = Field(None, ge=2)
    renormalize_logits: bool = False

    @property
    def tie(self) -> str:
        """Value of our option `model.tie`: which embeddings share one matrix."""
        if self.share_encoder_decoder_embeddings:
            return "all"
        return "target" if self.tie_word_embeddings else "none"

    @property
    def obstacle(self) -> str | None:
        """Reason why our Transformer cannot represent this model; None if it can."""
        obstacles = {
            f"it is a model of type {self.model_type!r}, not 'marian'": self.model_type != "marian",
            "its embeddings are not scaled by √width (scale_embedding)": not self.scale_embedding,
            "encoder and decoder have different numbers of heads": (
                self.encoder_attention_heads != self.decoder_attention_heads
            ),
            "the feed-forward layers of encoder and decoder have different widths": (
                self.encoder_ffn_dim != self.decoder_ffn_dim
            ),
            f"its activation {self.activation_function!r} is not one of {', '.join(ACTIVATIONS)}": (
                self.activation_function not in ACTIVATIONS
            ),
            "its embeddings are shared with each other but not with the output": (
                self.share_encoder_decoder_embeddings and not self.tie_word_embeddings
            ),
        }
        return next((reason for reason, applies in obstacles.items() if applies), None)

    def model_options(self) -> dict[str, Any]:
        """Return the `model.*` options of the run."""
        return {
            "name": "transformer",
            "width": self.d_model,
            "layers": self.encoder_layers,
            "decoder_layers": self.decoder_layers,
            "heads": self.encoder_attention_heads,
            "ffn": self.encoder_ffn_dim,
            "activation": ACTIVATIONS[self.activation_function],
            "positions": "sinusoidal",
            "max_length": self.max_position_embeddings,
            "norm_place": "after",
            "dropout": self.dropout,
            "tie": self.tie,
        }

    def search_options(self) -> dict[str, Any]:
        """Return the `search.*` options of the run. Marian's maximum length includes the start symbol."""
        return {
            "beam": self.num_beams,
            "length_penalty": self.length_penalty,
            "max_length_factor": 0,
            "max_length_extra": (self.max_length or self.max_position_embeddings) - 1,
        }


def read_options(folder: Path) -> dict[str, Any]:
    """Return the options of config.json, overridden by generation_config.json; null values are dropped."""
    if not folder.is_dir():
        raise SeqloomError(f"There is no folder {folder}.", f"name the folder that contains {CONFIG}")
    for file in folder.iterdir():
        if is_special(file):
            raise SeqloomError(f"{file} is a pipe or a device.", "remove it from the folder")
    options = read_object(folder / CONFIG)
    if "model_type" not in options:
        raise SeqloomError(
            f"{folder} does not contain a Marian model: its {CONFIG} has no model_type.",
            "name a folder written by transformers or by seqloom export --to hf-marian",
        )
    if (folder / GENERATION).exists():
        options |= read_object(folder / GENERATION)
    return {name: value for name, value in options.items() if value is not None}


class Vocabulary(NamedTuple):
    """Vocabulary in our order: the Marian id and the piece of each of our ids."""

    rows: list[int | None]  # None: our padding symbol, if Marian's padding symbol starts a target
    pieces: tuple[str, ...]


def read_vocabularies(folder: Path, config: MarianConfig) -> tuple[Vocabulary, Vocabulary]:
    """Return the source and target vocabularies, which are the same unless `separate_vocabs` is set."""
    separate = (folder / TOKENIZER).exists() and read_object(folder / TOKENIZER).get("separate_vocabs")
    source = _vocabulary(folder / VOCABULARY, config, config.vocab_size)
    if not separate:
        return source, source
    size = config.decoder_vocab_size or config.vocab_size
    return source, _vocabulary(folder / TARGET_VOCABULARY, config, size)


def _vocabulary(path: Path, config: MarianConfig, size: int) -> Vocabulary:
    ids = read_object(path)
    pieces = {id: piece for piece, id in ids.items() if type(id) is int and 0 <= id < size}
    if len(pieces) < len(ids):
        raise SeqloomError(f"{path} must give each piece a unique id below {size:,}.", _COPY_AGAIN)
    pad, start, eos = config.pad_token_id, config.decoder_start_token_id, config.eos_token_id
    for piece, id in (("</s>", eos), ("<pad>", pad)):
        if ids.get(piece) != id:
            raise SeqloomError(
                f"{path} does not match {CONFIG}: {piece} has the id {ids.get(piece)}, expected {id}.",
                _COPY_AGAIN,
            )
    first = [None if pad == start else pad, start, eos, ids.get("<unk>", eos)]
    if len({pad, *first[1:]}) < len(first) - (pad == start) or start >= size:
        raise SeqloomError(
            f"{path} must have a <unk> that differs from </s>, <pad> and the start symbol.", _COPY_AGAIN
        )
    rest = [id for id in range(size) if id not in first]
    return Vocabulary([*first, *rest], (*SPECIALS, *(pieces.get(id, f"<unused-{id}>") for id in rest)))


def read_languages(folder: Path) -> LanguagePair | None:
    """Return the languages of the model, if its files name one source and one target language."""
    if not (folder / TOKENIZER).is_file():
        return None
    options = read_object(folder / TOKENIZER)
    codes = [language_code(str(options.get(side) or "")) for side in ("source_lang", "target_lang")]
    source, target = (None if code in _NO_LANGUAGE else code for code in codes)
    return LanguagePair(source, target) if source and target else None


def weights_file(folder: Path) -> Path:
    """Return the file with the weights; if it is missing, raise an error that explains how to create it."""
    if (folder / WEIGHTS).is_file():
        return folder / WEIGHTS
    unusable = [name for name in ("pytorch_model.bin", f"{WEIGHTS}.index.json") if (folder / name).exists()]
    raise SeqloomError(
        f"{folder} has no {WEIGHTS}" + (f", only {unusable[0]}." if unusable else "."),
        "on a machine with transformers, create it: "
        'MarianMTModel.from_pretrained(FOLDER).save_pretrained(NEW, max_shard_size="100GB")',
    )
