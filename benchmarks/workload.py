"""What every contestant trains: the same files, the same vocabulary, the same sizes, the same batches."""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK

FILES = ("train.en", "train.de", "val.en", "val.de")
PIECES = ".pieces"  # what the names of tokenised files end with
VOCABULARY = "vocabulary.txt"  # without special symbols: each peer adds four of its own


@dataclass(frozen=True)
class Corpus:
    """Unpacked text, its vocabulary, and the lengths of every pair in tokens, the end of sentence counted."""

    folder: Path
    tokenizers: TokenizerPair
    lengths: list[tuple[int, int]]

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizers.source.size

    @property
    def sources(self) -> int:
        """Tokens of all sources."""
        return sum(source for source, _ in self.lengths)

    @property
    def targets(self) -> int:
        """Tokens of all targets."""
        return sum(target for _, target in self.lengths)

    def file(self, name: str) -> str:
        return str(self.folder / name)


@dataclass(frozen=True)
class Recipe:
    """How Adam moves: the rate rises over the warm-up to its peak and falls with 1/√update after it."""

    learning_rate: float = 1e-3  # the peak
    warmup: int = 400  # updates
    betas: tuple[float, float] = (0.9, 0.98)


@dataclass(frozen=True)
class Workload:
    """One training run as every contestant is asked to do it."""

    corpus: Corpus
    seconds: float  # how long the training loop runs
    warmup: float  # how much of that is not counted
    threads: int
    batch_tokens: int  # rows × the longest side, padding included
    label_smoothing: float = 0.1
    recipe: Recipe | None = None  # None: what each has by default or in its examples; the speed is the same
    checkpoint_every: int | None = None  # updates; None: nothing is saved that takes time


@dataclass(frozen=True)
class Model(ABC):
    """The sizes of a model; its fields are named as seqloom's `model.*` options."""

    name: str
    width: int  # of the embeddings, too
    layers: int  # of the encoder, and again of the decoder
    dropout: float

    @abstractmethod
    def products(self, corpus: Corpus) -> float:
        """Multiplications of the matrix products of one forward pass over the corpus, padding left out."""


@dataclass(frozen=True)
class Transformer(Model):
    """Attention weights are not dropped: not every contestant can."""

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
    """Two directions of half the width in the encoder, bilinear attention, no input feeding."""

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
    """The folder of Multi30k's raw files, under SEQLOOM_DATA or beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(environment.get("SEQLOOM_DATA", beside)) / "multi30k"
    missing = [
        name for name in FILES if not (folder / f"{name}.gz").is_file() and not (folder / name).is_file()
    ]
    if missing:
        raise SeqloomError(
            f"Multi30k is needed for this benchmark, but {folder} has no {', '.join(missing)} (plain or .gz).",
            "set SEQLOOM_DATA to the folder that holds multi30k/, whose files are those of data/task1/raw in "
            "the GitHub repository multi30k/dataset",
        )
    return folder


def unpacked(folder: Path, name: str) -> bytes:
    """What the file of that name holds, which is there as it is or with .gz behind its name."""
    packed = folder / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / name).read_bytes()


def prepare_corpus(folder: Path, work: Path, vocabulary: int) -> Corpus:
    """Unpacks the files into `work` and writes them there in pieces, too, and the vocabulary.

    The pieces are those of the tokenizer that seqloom trains by itself from the same files.
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
    """Multiplications and additions of one target token and its share of the source, forward and backward.

    Only matrix products are counted, padding and optimiser are not: a lower bound, so the limit that follows
    from it cannot be reached. A product of a forward pass comes back twice in the backward pass.
    """
    return 3 * 2 * model.products(corpus) / corpus.targets
