"""Training of SentencePiece models for any kind, corpus and vocabulary size."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from seqloom.errors import SeqloomError
from seqloom.text.config import Kind
from seqloom.types import BOS, EOS, PAD, UNK

SPACE = "▁"  # SentencePiece's space mark

_BOUNDARY = "\t"  # for the trainer: no piece contains or crosses it
_RESERVED = "\0 \u2585"  # rejected by the trainer, which also requires spaces to be marked

_SPECIALS = 4  # PAD, BOS, EOS, UNK
_BYTES = 256
# The most frequent characters, which become pieces even if they fill the vocabulary.
_FEW_CHARACTERS = 128
# Another number of threads changes the last digit of sums and thereby the pieces, but the same corpus must
# give the same model on every machine.
_THREADS = 4
_NO_LIMIT = 2**30
_LONG_LINE, _PART = 1000, 250  # characters: longer lines are searched for repeated parts
_LONG_WORD = 2000  # characters; a piece can have at most 8,000 bytes
# Serialised messages are merged by concatenation: normalizer_spec (3) { escape_whitespaces (5): false }.
# Training requires true; afterwards a plain space is an ordinary character and never a space mark.
_KEEP_SPACES = b"\x1a\x02\x28\x00"


class TrainedModel(NamedTuple):
    """Serialised SentencePiece model, and remarks about it for the user."""

    model: bytes
    notes: list[str]


def train_sentencepiece(
    lines: Sequence[str], *, kind: Kind, vocab_size: int, byte_fallback: bool, symbols: Sequence[str]
) -> TrainedModel:
    """Train a model whose ids 0 to 3 are PAD, BOS, EOS and UNK; `symbols` are pieces that are never split.

    The lines must have their spaces marked, as the tokenizer encodes them.
    """
    import sentencepiece

    if not any(lines):
        raise SeqloomError(
            "Cannot train a tokenizer: every line of the training data is empty.",
            "check the file and its columns with: seqloom data show FILE",
        )
    fixed = _SPECIALS + _BYTES * byte_fallback + len(symbols)
    size, dropped = _size_and_rare(lines, kind, vocab_size, fixed)
    table = str.maketrans(dict.fromkeys([*_RESERVED, *dropped], _BOUNDARY))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line.translate(table) for line in _trainable(lines, kind)),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=byte_fallback,
        user_defined_symbols=list(symbols),
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNK,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        max_sentence_length=_NO_LIMIT,  # SentencePiece skips longer lines silently
        num_threads=_THREADS,
        minloglevel=2,
    )
    got = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()
    return TrainedModel(model.getvalue() + _KEEP_SPACES, _notes(vocab_size, got))


def _trainable(lines: Sequence[str], kind: Kind) -> Sequence[str]:
    """Return the lines without content that the trainer of this kind cannot handle; ordinary lines stay."""
    if kind == "word":
        return [re.sub(f"{SPACE}?[^{SPACE}]{{{_LONG_WORD},}}", _BOUNDARY, line) for line in lines]
    return _without_long_repeats(lines) if kind == "unigram" else lines


def _without_long_repeats(lines: Sequence[str]) -> list[str]:
    """Return the lines rearranged so that no long stretch of the concatenated lines occurs twice.

    The unigram trainer takes time quadratic in the length of such a stretch. The order of lines does not change
    its result, so lines are shuffled if any are equal; long lines that mostly repeat themselves or other lines
    are reduced to their new parts.
    """
    kept, seen = list[str](), set[str]()
    for line in lines:
        if len(line) <= _LONG_LINE:
            kept.append(line)
            continue
        parts = _parts(line)
        new = [part for part in dict.fromkeys(parts) if part not in seen]
        seen.update(new)
        kept.extend([line] if 2 * len(new) > len(parts) else new)
    if len(set(kept)) < len(kept):
        random.Random(0).shuffle(kept)
    return kept


def _parts(line: str) -> list[str]:
    """Split the line into short parts, before a space where possible."""
    return re.findall(f"(?s).{{1,{_PART}}}(?={SPACE}|$)|.{{{_PART}}}", line)


def _size_and_rare(lines: Iterable[str], kind: Kind, vocab_size: int, fixed: int) -> tuple[int, list[str]]:
    """Return a vocabulary size that can be trained, and the characters that are too rare to become pieces.

    With thousands of characters, as in Chinese, the rarest must leave room for longer pieces.
    """
    if kind in ("char", "word"):  # these keep the most frequent types that fit
        return max(vocab_size, fixed + 1), []
    counts = Counter[str]()
    for line in lines:
        counts.update(line)
    size = max(vocab_size, fixed + min(len(counts), _FEW_CHARACTERS))
    keep = max(_FEW_CHARACTERS, (size - fixed) * 3 // 4)
    return size, sorted(counts, key=lambda char: (-counts[char], char))[keep:]


def _notes(requested: int, got: int) -> list[str]:
    if got < requested:
        return [f"vocabulary reduced from {requested:,} to {got:,}: the corpus has no more pieces"]
    if got > requested:
        return [f"vocabulary increased from {requested:,} to {got:,} to hold all characters, bytes and tags"]
    return []
