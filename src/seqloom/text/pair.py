"""Source and target tokenizers: one joint model, or one per side."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from seqloom.errors import SeqloomError
from seqloom.text.config import RESERVED, VECTORS, Kind, Side, TextConfig
from seqloom.text.frames import FrameReader, Frames
from seqloom.text.marian import MarianTokenizer
from seqloom.text.tokenizer import Tokenizer, saved_kind
from seqloom.types import OutputKind, Vocabularies

Pairs = Callable[[], Iterable[tuple[str, str]]]

_TAG = re.compile(r"<[^\s<>]+>")
_MOST_FRAMES = 5000  # feature files sampled for the mean and the standard deviation
_MOST_TAGS = 256  # limit for data in which every line begins with another symbol


@dataclass(frozen=True)
class TokenizerPair:
    """Source and target tokenizers; the same object if they share one model.

    `reader` encodes the sources, and `writer` the targets: a tokenizer, or a FrameReader for feature files.
    """

    reader: Tokenizer | FrameReader
    writer: Tokenizer | FrameReader

    @property
    def target(self) -> Tokenizer:
        """Target tokenizer; an error if the targets are not text."""
        if isinstance(self.writer, FrameReader):
            raise SeqloomError(
                "The targets of this run are vectors, but this operation supports only text.",
                "train, translate and evaluate support both",
            )
        return self.writer

    @property
    def vectors(self) -> FrameReader:
        """Reader of targets that are vectors."""
        assert isinstance(self.writer, FrameReader)
        return self.writer

    @property
    def source(self) -> Tokenizer:
        """Source tokenizer; an error if the sources are not text."""
        if isinstance(self.reader, FrameReader):
            raise SeqloomError(
                "The sources of this run are feature files, but this operation supports only text.",
                "train, translate, evaluate and score support both",
            )
        return self.reader

    def text(self, side: Side) -> Tokenizer:
        """Return the tokenizer of a side; an error if it is not text."""
        return self.source if side == "source" else self.target

    @property
    def frames(self) -> bool:
        """Whether sources are frames instead of ids."""
        return isinstance(self.reader, FrameReader)

    @property
    def target_kind(self) -> OutputKind:
        """Kind of the targets."""
        if not isinstance(self.writer, FrameReader):
            return "tokens"
        return "distributions" if self.writer.is_distribution else "vectors"

    @property
    def source_end(self) -> int:
        """Number of positions that the end of a source takes: 1 (EOS) for text, 0 for frames."""
        return 0 if self.frames else 1

    def source_pieces(self, source: list[int] | Frames) -> list[str]:
        """Return one readable piece per id of a source, or the time of each frame."""
        if isinstance(self.reader, FrameReader):
            return self.reader.pieces(len(source))
        return self.reader.pieces(int(id) for id in source)

    @property
    def vocabularies(self) -> Vocabularies:
        """Vocabulary sizes and kinds, as a model needs them."""
        tags = () if self.frames else (*self.source.tags, *self.source.tag_separators)
        words = None if self.frames else self.source.word_starts
        sizes = self.reader.size, self.writer.size
        return Vocabularies(*sizes, self.joint, self.frames, tags, words, self.target_kind)

    @property
    def joint(self) -> bool:
        """Whether both sides share their ids."""
        return self.reader.vocabulary == self.writer.vocabulary

    @property
    def fingerprint(self) -> str:
        """Hash of everything that determines the ids of both sides."""
        return hashlib.sha256(f"{self.reader.fingerprint} {self.writer.fingerprint}".encode()).hexdigest()

    @property
    def notes(self) -> list[str]:
        """Remarks for the user about the trained vocabularies."""
        if self.joint:
            return self.writer.notes
        return [
            f"{side}: {note}"
            for side, tokenizer in (("source", self.reader), ("target", self.writer))
            for note in tokenizer.notes
        ]

    def portable(self) -> TokenizerPair:
        """Return the same tokenizers with models that plain SentencePiece can also use."""
        target = self.target.portable()
        return TokenizerPair(target if self.reader is self.target else self.source.portable(), target)

    @classmethod
    def train(cls, config: TextConfig, pairs: Pairs, symbols: Sequence[str] = ()) -> TokenizerPair:
        """Train tokenizers on a sample of the pairs; `symbols` and tags are never split."""
        source_kind, target_kind = config.kinds
        lines, found = _sample(pairs(), config.sample // (2 if config.is_joint else 1) or 1)
        tags = tuple(dict.fromkeys((*(found if config.tags is None else config.tags), *symbols)))
        if target_kind in VECTORS:
            files = [target for _, target in _some(lines)]
            center: Literal["corpus", "none"] = "none" if target_kind == "distributions" else "corpus"
            writer: Tokenizer | FrameReader = FrameReader.train(files, center=center, stack=1)
        elif not config.is_joint:
            writer = _train(config, target_kind, (target for _, target in lines), config.tags or ())
        if source_kind == "frames":
            files = [line for line, _ in _some(lines)]
            return cls(FrameReader.train(files, center=config.center, stack=config.stack), writer)
        if config.is_joint:
            tokenizer = _train(config, source_kind, (line for pair in lines for line in pair), tags)
            return cls(tokenizer, tokenizer)
        return cls(_train(config, source_kind, (source for source, _ in lines), tags), writer)

    def save(self, folder: str | Path) -> None:
        """Write joint.* or source.* and target.*."""
        if self.reader is self.writer:
            self.writer.save(folder, "joint")
        else:
            self.reader.save(folder, "source")
            self.writer.save(folder, "target")

    @classmethod
    def load(cls, folder: str | Path) -> TokenizerPair:
        """Load the pair that `save` wrote."""
        folder = Path(folder)
        if not folder.is_dir():
            raise SeqloomError(
                f"The tokenizer folder {folder} does not exist.",
                "the run directory is incomplete; copy it again or train a new run",
            )
        if (folder / "joint.json").exists():
            tokenizer = _load(folder, "joint")
            return cls(tokenizer, tokenizer)
        return cls(_load_side(folder, "source"), _load_side(folder, "target"))


def _load_side(folder: Path, side: Side) -> Tokenizer | FrameReader:
    """Load the tokenizer or frame reader of a side, whichever was saved."""
    if saved_kind(folder, side) == "frames":
        return FrameReader.load(folder, side)
    return _load(folder, side)


def _load(folder: Path, side: str) -> Tokenizer:
    """Load the tokenizer of a side, of the kind that was saved."""
    kind = MarianTokenizer if saved_kind(folder, side) == "marian" else Tokenizer
    return kind.load(folder, side)


def _train(config: TextConfig, kind: str, lines: Iterable[str], tags: Sequence[str]) -> Tokenizer:
    return Tokenizer.train(
        lines,
        kind=cast("Kind", kind),
        vocab_size=config.vocab_size,
        normalize=config.normalize,
        lowercase=config.lowercase,
        collapse_spaces=config.collapse_spaces,
        byte_fallback=config.byte_fallback,
        tags=tags,
    )


def _some(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return a sample of the lines whose files are read for the mean and the standard deviation."""
    return random.Random(0).sample(lines, min(len(lines), _MOST_FRAMES))


def _sample(pairs: Iterable[tuple[str, str]], size: int) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Return a uniform, reproducible sample of at most `size` pairs, and the tags of all pairs."""
    draw = random.Random(0)
    sample: list[tuple[str, str]] = []
    tags = Counter[str]()
    for seen, pair in enumerate(pairs):
        tags.update(tag for tag in _leading_tags(pair[0]) if tag in tags or len(tags) < 4 * _MOST_TAGS)
        if seen < size:
            sample.append(pair)
        elif (place := draw.randrange(seen + 1)) < size:  # reservoir sampling: one pass, fixed memory
            sample[place] = pair
    return sample, tuple(sorted(tag for tag, _ in tags.most_common(_MOST_TAGS)))


def is_tag(symbol: str) -> bool:
    """Return whether a symbol at the start of a source is a tag, such as <2de>, which is never split."""
    return bool(_TAG.fullmatch(symbol)) and not RESERVED.fullmatch(symbol)


def _leading_tags(line: str) -> list[str]:
    """Return the tags, such as <2de>, at the start of a line."""
    if not line.startswith("<"):
        return []
    tags = []
    for symbol in line.split():
        if not is_tag(symbol):
            break
        tags.append(symbol)
    return tags
