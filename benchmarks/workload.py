"""Training task of all toolkits: the same files, vocabulary, model sizes and batches."""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from command import data_folder

from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK

FILES = ("train.en", "train.de", "val.en", "val.de")
PIECES = ".pieces"  # suffix of tokenised files
VOCABULARY = "vocabulary.txt"  # without special symbols: each toolkit adds its own


@dataclass(frozen=True)
class Corpus:
    """Text files, tokenizers and the lengths of all pairs in tokens, including the end of sentence."""

    folder: Path
    tokenizers: TokenizerPair
    lengths: list[tuple[int, int]]

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizers.source.size

    @property
    def sources(self) -> int:
        """Number of source tokens."""
        return sum(source for source, _ in self.lengths)

    @property
    def targets(self) -> int:
        """Number of target tokens."""
        return sum(target for _, target in self.lengths)

    def file(self, name: str) -> str:
        return str(self.folder / name)


@dataclass(frozen=True)
class Recipe:
    """Options of Adam: the rate rises linearly during the warm-up, then decays with 1/√update."""

    learning_rate: float = 1e-3  # peak
    warmup: int = 400  # updates
    betas: tuple[float, float] = (0.9, 0.98)


@dataclass(frozen=True)
class Workload:
    """Settings of one training run, the same for all toolkits."""

    corpus: Corpus
    seconds: float  # duration of the training loop
    warmup: float  # initial part that is not measured
    threads: int
    batch_tokens: int  # rows × longest side, including padding
    label_smoothing: float = 0.1
    recipe: Recipe | None = None  # None: defaults or examples of each toolkit, for speed only
    checkpoint_every: int | None = None  # updates; None: no checkpoints during the measurement


@dataclass(frozen=True)
class Model(ABC):
    """Sizes of a model. The fields have the names of the `model.*` options."""

    name: str
    width: int  # also of the embeddings
    layers: int  # in the encoder and in the decoder
    dropout: float

    @abstractmethod
    def products(self, corpus: Corpus) -> float:
        """Return the multiplications in the matrix products of a forward pass over the corpus, no padding."""


@dataclass(frozen=True)
class Transformer(Model):
    """A Transformer without attention dropout, which not every toolkit supports."""

    name: str = "transformer"
    width: int = 256
    layers: int = 3
    dropout: float = 0.1
    heads: int = 4
    ffn: int = 1024

    def products(self, corpus: Corpus) -> float:
        d, ffn = self.width, self.ffn
        encoder = corpus.sources * (4 * d * d + 2 * d * ffn)
        keys_values = corpus.sources * 2 * d * d  # of cross-attention: per source token
        decoder = corpus.targets * (6 * d * d + 2 * d * ffn) + keys_values
        pairs = sum(s * s + t * t + s * t for s, t in corpus.lengths)
        attention = pairs * 2 * d  # scores, then the weighted sum
        output = corpus.targets * d * corpus.vocabulary_size
        return self.layers * (encoder + decoder + attention) + output


@dataclass(frozen=True)
class LSTM(Model):
    """An LSTM with a bidirectional encoder (half the width each way), bilinear attention, no input feeding."""

    name: str = "lstm-bilinear"
    width: int = 320
    layers: int = 2
    dropout: float = 0.2
    kernel: str = "fused"

    def products(self, corpus: Corpus) -> float:
        d = self.width
        encoder = corpus.sources * 2 * 4 * (d / 2) * (d + d / 2)  # directions × gates × their rows × columns
        decoder = corpus.targets * 4 * d * (d + d)
        pairs = sum(s * t for s, t in corpus.lengths)
        attention = corpus.targets * d * d + pairs * 2 * d  # the W of sᵀ W h; scores, then the weighted sum
        output = corpus.targets * (2 * d * d + d * corpus.vocabulary_size)  # tanh(W[a; s]) comes first
        return self.layers * (encoder + decoder) + attention + output


def find_multi30k(environment: Mapping[str, str]) -> Path:
    """Return the folder of the raw Multi30k files in SEQLOOM_DATA, or in shared/data next to the repository."""
    folder = data_folder(environment) / "multi30k"
    missing = [
        name for name in FILES if not (folder / f"{name}.gz").is_file() and not (folder / name).is_file()
    ]
    if missing:
        raise SeqloomError(
            f"Multi30k not found: {folder} does not contain {', '.join(missing)} (plain or .gz).",
            "Set SEQLOOM_DATA to the folder that contains multi30k/ with the files of data/task1/raw in the "
            "GitHub repository multi30k/dataset.",
        )
    return folder


def unpacked(folder: Path, name: str) -> bytes:
    """Return the content of a file that exists as such or with the suffix .gz."""
    packed = folder / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / name).read_bytes()


def prepare_corpus(folder: Path, work: Path, vocabulary: int) -> Corpus:
    """Write the plain files, the tokenised files and the vocabulary to `work`.

    The tokenizer is the one that seqloom trains on the same files.
    """
    work.mkdir(parents=True)
    for name in FILES:
        (work / name).write_bytes(unpacked(folder, name))
    sides = [(work / name).read_text(encoding="utf-8").rstrip("\n").split("\n") for name in FILES[:2]]
    tokenizers = TokenizerPair.train(
        TextConfig.model_validate({"vocab_size": vocabulary}), lambda: zip(*sides, strict=True)
    )
    tokenizer = tokenizers.source
    lengths = []
    for name, lines in zip(FILES[:2], sides, strict=True):
        ids = tokenizer.encode_batch(lines, threads=1)
        text = "".join(" ".join(tokenizer.pieces(line)) + "\n" for line in ids)
        (work / f"{name}{PIECES}").write_text(text, encoding="utf-8")
        lengths.append([len(line) + 1 for line in ids])
    pieces = tokenizer.pieces(range(UNK + 1, tokenizer.size))
    (work / VOCABULARY).write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return Corpus(work, tokenizers, list(zip(*lengths, strict=True)))


def flops_per_target_token(model: Model, corpus: Corpus) -> float:
    """Return the FLOPs per target token and its share of the source, forward and backward.

    Only matrix products count, without padding and optimizer. This is a lower bound, so the resulting limit
    cannot be reached. Each product of the forward pass has two products in the backward pass.
    """
    return 3 * 2 * model.products(corpus) / corpus.targets
