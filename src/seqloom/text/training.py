"""Trains SentencePiece models: any kind, any corpus, any vocabulary size."""

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

SPACE = "▁"  # SentencePiece's mark of a space

_BOUNDARY = "\t"  # to its trainer: no piece goes across, and none contains it
_RESERVED = "\0 \u2585"  # what it refuses; a plain space, too, because training wants it marked

_SPECIALS = 4  # PAD, BOS, EOS, UNK
_BYTES = 256
# Characters that are pieces of their own even if that takes the whole vocabulary.
_FEW_CHARACTERS = 128
# The sums of a training with another number of threads differ in the last digit, and so would the pieces:
# the same corpus must give the same model on every machine.
_THREADS = 4
_NO_LIMIT = 2**30
_LONG_LINE, _PART = 1000, 250  # characters: a longer line is looked at in parts for whether it repeats itself
_LONG_WORD = 2000  # characters: no piece may have more than 8,000 bytes
# Serialised messages are merged by concatenation: normalizer_spec (3) { escape_whitespaces (5): false }.
# Training insists on true; afterwards a plain space is a character as any other, and never the mark of one.
_KEEP_SPACES = b"\x1a\x02\x28\x00"


class Trained(NamedTuple):
    """A serialised SentencePiece model and what the person should know about it."""

    model: bytes
    notes: list[str]


def train_sentencepiece(
    lines: Sequence[str], *, kind: Kind, vocab_size: int, byte_fallback: bool, symbols: Sequence[str]
) -> Trained:
    """A model whose ids 0 to 3 are PAD, BOS, EOS and UNK; `symbols` are pieces that are never cut.

    The lines are as the tokenizer encodes them, with marks for spaces.
    """
    import sentencepiece

    if not any(lines):
        raise SeqloomError(
            "There is no text to train a tokenizer on: every line of the training data is empty.",
            "check that the file and its columns are the right ones: seqloom data show FILE",
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
        max_sentence_length=_NO_LIMIT,  # a longer line would be left out silently
        num_threads=_THREADS,
        minloglevel=2,
    )
    got = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()
    return Trained(model.getvalue() + _KEEP_SPACES, _notes(vocab_size, got))


def _trainable(lines: Sequence[str], kind: Kind) -> Sequence[str]:
    """Return the lines without what the trainer of that kind cannot cope with; ordinary lines stay."""
    if kind == "word":
        return [re.sub(f"{SPACE}?[^{SPACE}]{{{_LONG_WORD},}}", _BOUNDARY, line) for line in lines]
    return _without_long_repeats(lines) if kind == "unigram" else lines


def _without_long_repeats(lines: Sequence[str]) -> list[str]:
    """Return the lines such that no long stretch of them, taken together, occurs twice.

    The unigram trainer takes time quadratic in the length of such a stretch. The order of lines does not change
    its result, so equal lines are scattered; long lines that mostly repeat themselves, or others, are reduced
    to their new parts.
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
    """Return the line cut into short parts, where possible before a space."""
    return re.findall(f"(?s).{{1,{_PART}}}(?={SPACE}|$)|.{{{_PART}}}", line)


def _size_and_rare(lines: Iterable[str], kind: Kind, vocab_size: int, fixed: int) -> tuple[int, list[str]]:
    """The vocabulary size that can be trained, and the characters too rare to be pieces in it.

    Of thousands of characters, as in Chinese, the rarest must leave room for longer pieces.
    """
    if kind in ("char", "word"):  # these take the most frequent types that fit
        return max(vocab_size, fixed + 1), []
    counts = Counter[str]()
    for line in lines:
        counts.update(line)
    size = max(vocab_size, fixed + min(len(counts), _FEW_CHARACTERS))
    keep = max(_FEW_CHARACTERS, (size - fixed) * 3 // 4)
    return size, sorted(counts, key=lambda char: (-counts[char], char))[keep:]


def _notes(asked: int, got: int) -> list[str]:
    if got < asked:
        return [f"vocabulary lowered from {asked:,} to {got:,}: the corpus has no more pieces"]
    if got > asked:
        return [f"vocabulary raised from {asked:,} to {got:,}: its characters, bytes and tags need that many"]
    return []
