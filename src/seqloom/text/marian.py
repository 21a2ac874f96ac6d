"""Tokenizer of a Marian model: SentencePiece splits the text, and a separate vocabulary numbers the pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from seqloom.errors import SeqloomError
from seqloom.text.normalize import Normalizer, check_unicode
from seqloom.text.tokenizer import Tokenizer, TokenizerSettings, unknown_surface
from seqloom.text.training import SPACE
from seqloom.types import UNK

# SentencePiece applies the normalisation rules of its model, so the text is passed to it unchanged.
_AS_WRITTEN = Normalizer(normalize="none", lowercase=False, collapse_spaces=False, tags=())


class MarianSettings(TokenizerSettings):
    """Settings with the pieces in the order of their ids; the first four are PAD, BOS, EOS and UNK."""

    kind: Literal["marian"] = "marian"
    normalizer: Normalizer = _AS_WRITTEN
    vocabulary: tuple[str, ...]


class MarianTokenizer(Tokenizer):
    """Tokenizer with the ids of a Marian model. A line may begin with a language code: >>fra<< text."""

    SETTINGS = MarianSettings
    settings: MarianSettings
    _APPENDED = b""  # SentencePiece marks spaces itself

    def __init__(self, model: bytes, settings: MarianSettings) -> None:
        super().__init__(model, settings)
        # No input text maps to the four special ids, whatever its spelling.
        self._ids = {piece: id for id, piece in enumerate(settings.vocabulary) if id > UNK}

    @property
    def size(self) -> int:
        return len(self.settings.vocabulary)

    @property
    def names(self) -> tuple[str, ...]:
        return self.settings.vocabulary

    def portable(self) -> MarianTokenizer:
        return MarianTokenizer(self._model + unknown_surface(""), self.settings)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return self.settings.vocabulary

    def normalize(self, text: str) -> str:
        code, text = _split_code(text)
        return code + str(self._processor.normalize(text)).replace(SPACE, " ").strip()

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text], threads=1)[0]

    def encode_inside(self, text: str) -> list[int]:
        return self.encode(text)  # SentencePiece itself puts a space before every text

    def encode_batch(self, texts: Iterable[str], threads: int) -> list[list[int]]:
        parts = [_split_code(text) for text in texts]
        split = self._processor.encode([rest for _, rest in parts], out_type=str, num_threads=threads)
        lines = ([code, *pieces] if code else pieces for (code, _), pieces in zip(parts, split, strict=True))
        # A piece unknown to this SentencePiece model may still be in the vocabulary, from the other language.
        return [[self._ids.get(piece, UNK) for piece in pieces] for pieces in lines]

    def decode(self, ids: Iterable[int]) -> str:
        return super().decode(ids).strip()

    def symbol(self, tag: str) -> int:
        if tag not in self._ids:
            raise SeqloomError(
                f"The vocabulary of this imported model does not contain the symbol {tag}.",
                "train a new run with the symbol in text.tags",
            )
        return self._ids[tag]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.settings.vocabulary[id] for id in ids]

    def _bytes_of(self, id: int) -> bytes:
        if id <= UNK:  # an unknown word has no text, as in Hugging Face Transformers
            return b""
        piece = self.settings.vocabulary[id]
        is_byte = self._processor.is_byte(self._processor.piece_to_id(piece))
        return bytes([int(piece[1:-1], 16)]) if is_byte else piece.encode()


def as_marian(tokenizer: Tokenizer) -> MarianTokenizer:
    """Return a Marian tokenizer that splits normalised text as this one does; raise if there is none."""
    if isinstance(tokenizer, MarianTokenizer):
        return tokenizer
    normalizer = tokenizer.settings.normalizer
    if normalizer.lowercase or normalizer.normalize == "nfkc":
        option = "text.lowercase=true" if normalizer.lowercase else "text.normalize=nfkc"
        raise SeqloomError(
            f"The tokenizer normalises text with {option}, which a Marian tokenizer does not support.",
            "train with text.lowercase=false and text.normalize=nfc",
        )
    portable = tokenizer.portable()
    return MarianTokenizer(portable.model, MarianSettings(vocabulary=portable.names))


def _split_code(text: str) -> tuple[str, str]:
    """Split a line into its leading language code, such as >>fra<<, and the rest."""
    check_unicode(text)
    end = text.find("<<") + 2 if text.startswith(">>") else 0
    return (text[:end], text[end:]) if end > 2 else ("", text)
