"""What every contestant trains: the same files, the same vocabulary, the same model, the same batches."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK

FILES = ("train.en", "train.de", "val.en", "val.de")
PIECES = ".pieces"  # what the names of tokenised files end with


@dataclass(frozen=True)
class Model:
    """A Transformer's sizes. Attention weights are not dropped: not every contestant can."""

    width: int = 256
    layers: int = 3  # of the encoder, and again of the decoder
    heads: int = 4
    ffn: int = 1024
    dropout: float = 0.1
    label_smoothing: float = 0.1
    vocabulary: int = 8000


@dataclass(frozen=True)
class Corpus:
    """Unpacked text, its vocabulary, and the length of every line in tokens, the end of sentence counted."""

    folder: Path
    fingerprint: str  # of the tokenizers
    vocabulary: list[str]  # without the special symbols
    source_lengths: list[int]
    target_lengths: list[int]

    def file(self, name: str) -> str:
        return str(self.folder / name)


@dataclass(frozen=True)
class Workload:
    """One training run as every contestant is asked to do it."""

    corpus: Corpus
    model: Model
    batch_tokens: int
    seconds: float  # how long the training loop runs
    warmup: float  # how much of that is not counted
    threads: int


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


def prepare_corpus(folder: Path, work: Path, vocabulary: int) -> Corpus:
    """Unpacks the files into `work` and writes them there in pieces, too.

    The pieces are those of the tokenizer that seqloom trains by itself from the same files.
    """
    work.mkdir(parents=True)
    for name in FILES:
        plain, packed = folder / name, folder / f"{name}.gz"
        content = gzip.decompress(packed.read_bytes()) if packed.is_file() else plain.read_bytes()
        (work / name).write_bytes(content)
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
    return Corpus(work, tokenizers.fingerprint, tokenizer.pieces(range(UNK + 1, tokenizer.size)), *lengths)


def flops_per_target_token(model: Model, corpus: Corpus) -> float:
    """Multiplications and additions of one target token and its share of the source, forward and backward.

    Only matrix products are counted, padding and optimiser are not: a lower bound, so the limit that follows
    from it cannot be reached. A product of a forward pass comes back twice in the backward pass.
    """
    d, ffn, layers = model.width, model.ffn, model.layers
    sources, targets = sum(corpus.source_lengths), sum(corpus.target_lengths)
    pairs = list(zip(corpus.source_lengths, corpus.target_lengths, strict=True))
    encoder = sources * (4 * d * d + 2 * d * ffn)
    decoder = (
        targets * (6 * d * d + 2 * d * ffn) + sources * 2 * d * d
    )  # cross keys and values: per source token
    attention = 2 * d * sum(s * s + t * t + s * t for s, t in pairs)  # scores, then the weighted sum
    output = targets * d * model.vocabulary
    return 3 * 2 * (layers * (encoder + decoder + attention) + output) / targets
