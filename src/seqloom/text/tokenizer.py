"""Lossless conversion between text and ids, based on SentencePiece."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal, Self

from seqloom.errors import SeqloomError, quoted
from seqloom.files import sealed, unsealed, write_bytes, write_json
from seqloom.settings import Settings
from seqloom.text.config import MASK, Kind, Normalization
from seqloom.text.normalize import Normalizer
from seqloom.text.training import SPACE, train_sentencepiece
from seqloom.text.word_edges import WordEdges, word_edges
from seqloom.types import BOS, EOS, PAD, UNK, WordStarts

# SentencePiece marks spaces with U+2581 and reserves the tab. Swapping both with characters that have no
# special meaning makes them ordinary text; the table is its own inverse.
_SWAP = str.maketrans({" ": SPACE, SPACE: " ", "\t": "\ue009", "\ue009": "\t"})
_RARE = re.compile(f"[{SPACE}\t\ue009]")
_INSIDE_MASK = re.compile(rf"(?<={re.escape(MASK[0])})(?={re.escape(MASK[1:])})")
_UNKNOWN = "⁇"
_SEEDING = Lock()  # SentencePiece has one seed for the entire process


def own_spaces(*, prefix: bool, collapse: bool, escape: bool) -> bytes:
    """Return bytes that, appended to a serialised model, set how SentencePiece treats spaces.

    Protocol buffers merge them into the model: normalizer_spec (3) { add_dummy_prefix (3),
    remove_extra_whitespaces (4), escape_whitespaces (5) }.
    """
    return bytes([0x1A, 6, 0x18, prefix, 0x20, collapse, 0x28, escape])


def unknown_surface(text: str) -> bytes:
    """Return bytes that, appended to a model, set the text of unknown pieces.

    They are merged into trainer_spec (2) { unk_surface (44) }.
    """
    encoded = text.encode()
    return bytes([0x12, 3 + len(encoded), 0xE2, 0x02, len(encoded)]) + encoded


class TokenizerSettings(Settings):
    """Everything that defines a tokenizer in addition to its SentencePiece model."""

    kind: Kind | Literal["marian"]
    normalizer: Normalizer


class Tokenizer:
    """Lossless tokenizer: decode(encode(text)) == normalize(text) with byte fallback."""

    SETTINGS: ClassVar[type[TokenizerSettings]] = TokenizerSettings
    # Appended to the model: this class marks spaces, and a portable model would mark them a second time.
    _APPENDED: ClassVar[bytes] = own_spaces(prefix=False, collapse=False, escape=False)

    def __init__(self, model: bytes, settings: TokenizerSettings, notes: Iterable[str] = ()) -> None:
        import sentencepiece

        self._model = model
        self.settings = settings
        self.notes = list(notes)
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model + self._APPENDED)
        self._prefix = _prefix(settings.kind)
        self._bytes = [self._bytes_of(id) for id in range(self.size)]
        self.gaps = False  # whether [MASK] in a text is the symbol or ordinary text

    def with_gaps(self) -> Self:
        """Return a copy that encodes [MASK] in a text as the symbol instead of as text."""
        gapped = copy(self)
        gapped.gaps = True
        return gapped

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        kind: Kind,
        vocab_size: int,
        normalize: Normalization,
        lowercase: bool,
        collapse_spaces: bool,
        byte_fallback: bool,
        tags: Sequence[str],
    ) -> Tokenizer:
        """Train a tokenizer. The same lines give the same tokenizer on every machine."""
        normalizer = Normalizer(
            normalize=normalize, lowercase=lowercase, collapse_spaces=collapse_spaces, tags=tuple(tags)
        )
        prefix = _prefix(kind)
        model, notes = train_sentencepiece(
            [_mark_spaces(normalizer(line), prefix) for line in lines],
            kind=kind,
            vocab_size=vocab_size,
            byte_fallback=byte_fallback,
            symbols=[prefix + tag for tag in tags],
        )
        return cls(model, TokenizerSettings(kind=kind, normalizer=normalizer), notes)

    @property
    def size(self) -> int:
        """Number of ids."""
        return int(self._processor.get_piece_size())

    @property
    def model(self) -> bytes:
        """Serialised SentencePiece model."""
        return self._model

    def portable(self) -> Tokenizer:
        """Return the same tokenizer with a model that plain SentencePiece can also use on normalised text."""
        collapse = self.settings.normalizer.collapse_spaces
        spaces = own_spaces(prefix=bool(self._prefix), collapse=collapse, escape=True)
        return Tokenizer(self._model + spaces + unknown_surface(_UNKNOWN), self.settings, self.notes)

    @property
    def vocabulary(self) -> object:
        """Identity of the ids: tokenizers with equal vocabularies share their ids."""
        return self

    @property
    def fingerprint(self) -> str:
        """Hash of everything that determines the ids."""
        return hashlib.sha256(self._model + self.settings.model_dump_json().encode()).hexdigest()

    def normalize(self, text: str) -> str:
        """Return the normalised text, as it is tokenised."""
        return self.settings.normalizer(text)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        # SentencePiece encodes a list in threads that it starts for the call, which takes longer than one text.
        ids: list[list[int]] = [self._processor.encode(part) for part in self._parts(text)]
        return ids[0] if len(ids) == 1 else list(chain(*ids))

    def encode_inside(self, text: str) -> list[int]:
        """Return the ids of a text that follows other text without a space, e.g. a word after a bracket."""
        marked = _mark_spaces(self.normalize(text), prefix="")
        return list(self._processor.encode(marked))

    def encode_batch(self, texts: Iterable[str], threads: int) -> list[list[int]]:
        """Return the ids of each text, encoded with `threads` threads."""
        parts = list(map(self._parts, texts))
        ids: Iterator[list[int]] = iter(
            self._processor.encode(list(chain.from_iterable(parts)), num_threads=threads)
        )
        return [next(ids) if len(pieces) == 1 else list(chain(*islice(ids, len(pieces)))) for pieces in parts]

    def sample_batch(self, marked: Sequence[str], *, alpha: float, nbest: int, seed: int) -> list[list[int]]:
        """Return random ids of each text, whose spaces are marked; equal seeds give equal ids.

        SentencePiece seeds a generator per thread, and encodes a batch in a new thread.
        """
        import sentencepiece

        with _SEEDING:
            sentencepiece.set_random_generator_seed(seed)
            ids: list[list[int]] = self._processor.encode(
                list(marked), enable_sampling=True, alpha=alpha, nbest_size=nbest, num_threads=1
            )
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; PAD, BOS and EOS are skipped."""
        return self.spell(self._bytes[id] for id in ids)

    def spell(self, pieces: Iterable[bytes]) -> str:
        """Return the text of UTF-8 pieces, as returned by `bytes_of` and `surfaces`."""
        text = b"".join(pieces).decode("utf-8", errors="replace")
        return text.removeprefix(self._prefix).translate(_SWAP)

    def surfaces(self, text: str) -> list[str]:
        """Return the substring of the text for each id of `encode`, including unknown ones."""
        return list(chain(*(self._processor.encode(part, out_type=str) for part in self._parts(text))))

    def bytes_of(self, ids: Iterable[int]) -> list[bytes]:
        """Return the UTF-8 bytes of each id; joined, they are the text with '▁' before every word."""
        return [self._bytes[id] for id in ids]

    @cached_property
    def word_edges(self) -> WordEdges:
        """Word boundaries between tokens; an unknown token may be part of any word."""
        return word_edges(b"_" if id == UNK else piece for id, piece in enumerate(self._bytes))

    @cached_property
    def word_starts(self) -> WordStarts:
        """Ids that begin a word; a char tokenizer counts the space before a word as its beginning."""
        mark = SPACE.encode()
        bytes_ = [int(self._processor.piece_to_id(f"<0x{byte:02X}>")) for byte in mark]
        return WordStarts(
            tuple(id for id, piece in enumerate(self._bytes) if piece.startswith(mark)),
            () if UNK in bytes_ else tuple(bytes_),
        )

    def symbol(self, tag: str) -> int:
        """Return the id of a symbol that is never split, such as [MASK]."""
        if tag not in self.settings.normalizer.tags:
            raise SeqloomError(
                f"The tokenizer does not have the symbol {tag}.",
                f"train with text.tags={tag}, or start from a run that has it",
            )
        return int(self._processor.piece_to_id(self._prefix + tag))

    @cached_property
    def tags(self) -> tuple[int, ...]:
        """Ids of the tags, such as <2de>; [MASK] is not a tag."""
        return tuple(self.symbol(tag) for tag in self.settings.normalizer.tags if tag != MASK)

    @cached_property
    def tag_separators(self) -> tuple[int, ...]:
        """Ids that can be between two tags: the space of a char tokenizer; other kinds have it in the tag."""
        space = int(self._processor.piece_to_id(SPACE))
        return (space,) if self.settings.kind == "char" and self.tags and space != UNK else ()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return one readable piece per id; '▁' is a space."""
        return [self._pieces[id] for id in ids]

    def ids_of(self, pieces: Sequence[str]) -> list[int]:
        """Return the ids of readable pieces, as returned by `pieces`."""
        found = [self._piece_ids.get(piece, UNK) for piece in pieces]
        if UNK in found:
            unknown = [piece for piece in pieces if self._piece_ids.get(piece, UNK) == UNK]
            raise SeqloomError(
                f"The vocabulary has no token {quoted(unknown[0])}.",
                "use tokens as they are shown with an output, e.g. '▁a'",
            )
        return found

    @cached_property
    def _piece_ids(self) -> dict[str, int]:
        return {piece: id for id, piece in reversed(list(enumerate(self._pieces))) if id > UNK}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """SentencePiece's pieces by id, including the '▁' before a word."""
        return tuple(str(self._processor.id_to_piece(id)) for id in range(self.size))

    @cached_property
    def _pieces(self) -> tuple[str, ...]:
        """Readable pieces by id, cached to avoid a SentencePiece call per token."""
        if self.settings.kind != "word":
            return self.names
        return tuple(name.removeprefix(SPACE) for name in self.names)

    def save(self, folder: str | Path, side: str) -> None:
        """Write SIDE.model and SIDE.json, with checksums of both."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / f"{side}.model", self._model)
        record = {"model_sha256": hashlib.sha256(self._model).hexdigest(), **self.settings.model_dump()}
        write_json(folder / f"{side}.json", sealed(record))

    @classmethod
    def load(cls, folder: str | Path, side: str) -> Self:
        """Load the tokenizer that `save` wrote; `side` is joint, source or target."""
        folder = Path(folder)
        path = folder / f"{side}.json"
        model, record = _read(folder / f"{side}.model"), _read_record(path)
        try:
            expected = record.pop("model_sha256")
            settings = cls.SETTINGS.model_validate(record)
        except (ValueError, KeyError) as error:
            raise _damaged(path) from error
        if hashlib.sha256(model).hexdigest() != expected:
            raise _damaged(folder / f"{side}.model")
        try:
            return cls(model, settings)
        except (
            RuntimeError,
            ValueError,
            IndexError,
        ) as error:  # an untrusted file can have a matching checksum
            raise _damaged(folder / f"{side}.model") from error

    def _parts(self, text: str) -> list[str]:
        """Mark the spaces of a text; split it within [MASK] if that is ordinary text, not the symbol."""
        prepared = _mark_spaces(self.normalize(text), self._prefix)
        return [prepared] if self.gaps or MASK not in prepared else _INSIDE_MASK.split(prepared)

    def _bytes_of(self, id: int) -> bytes:
        if id in (PAD, BOS, EOS):
            return b""
        if id == UNK:
            return _UNKNOWN.encode()
        piece: str = self._processor.id_to_piece(id)
        return bytes([int(piece[1:-1], 16)]) if self._processor.is_byte(id) else piece.encode()


def saved_kind(folder: Path, side: str) -> object:
    """Return the kind of the tokenizer that was saved for a side."""
    return _read_record(folder / f"{side}.json").get("kind")


def _prefix(kind: str) -> str:
    """Return the prefix of a line: a space mark, so that the first word looks like any other; none for char."""
    return "" if kind == "char" else SPACE


def _mark_spaces(text: str, prefix: str) -> str:
    if not text:
        return ""
    return prefix + (text.translate(_SWAP) if _RARE.search(text) else text.replace(" ", SPACE))


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(record, dict):
        raise _damaged(path)
    try:
        return unsealed(record)
    except ValueError as error:
        raise _damaged(path) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SeqloomError(
            f"Cannot read the tokenizer file {path}: {error.strerror}.",
            "the run directory is incomplete; copy it again or train a new run",
        ) from error


def _damaged(path: Path) -> SeqloomError:
    return SeqloomError(
        f"The tokenizer file {path} is damaged: it differs from the saved one.",
        "restore it from a copy of the run directory or train a new run",
    )
