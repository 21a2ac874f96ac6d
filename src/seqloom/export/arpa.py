"""Export of n-gram runs to ARPA files, and import of ARPA files as runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqloom.errors import SeqloomError
from seqloom.export.imported import write_imported
from seqloom.outputs import check_can_write, check_new_folder, draft_file, write_errors
from seqloom.run.build import load_fitted
from seqloom.run.config import from_tree
from seqloom.run.directory import Run
from seqloom.statistical.ngram.arpa import NEVER, Arpa, read_arpa, write_arpa
from seqloom.statistical.ngram.assembly import Entries, assemble
from seqloom.statistical.ngram.model import NgramModel, NgramSettings
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, PAD, UNK

_SPECIALS = {BOS: "<s>", EOS: "</s>", UNK: "<unk>"}
# White space, at which other programs may split a word, and control characters.
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class ImportedArpa:
    """Result of an import: the new run and its model."""

    run: Run
    ngrams: Ngrams
    notes: list[str]


@dataclass(frozen=True)
class ExportedArpa:
    """Result of an export: the model, and the largest difference between its numbers and those in the file."""

    ngrams: Ngrams
    difference: float


def word_names(tokenizer: Tokenizer) -> list[str]:
    """Return a unique word without white space for every id: its piece.

    A character that cannot be part of a word is replaced by its code point, e.g. <U+0020>; of two equal words,
    the second is followed by its id.
    """
    names: dict[str, None] = dict.fromkeys(_SPECIALS.values())
    found = list[str]()
    for id, piece in enumerate(tokenizer.pieces(range(tokenizer.size))):
        name = _BREAKS.sub(lambda char: f"<U+{ord(char[0]):04X}>", piece)
        while name in names or not name:
            name = f"{name}#{id}"
        found.append(_SPECIALS.get(id, name))
        names[name] = None
    return found


def export_arpa(folder: str | Path, out: str | Path, *, checkpoint: str | None = None) -> ExportedArpa:
    """Write the n-grams of a run to a file (compressed if its name ends in .gz), and verify the file."""
    path = Path(out)
    check_can_write(path)
    run = Run.open(folder)
    if not isinstance(run.config().model, NgramSettings):
        raise SeqloomError(
            f"The model in {folder} is not an n-gram model, and an ARPA file can hold nothing else.",
            "train one with --model ngram",
        )
    model, tokenizers = load_fitted(run, checkpoint=checkpoint)
    assert isinstance(model, NgramModel)
    with write_errors(path), draft_file(path) as draft:
        write_arpa(draft, model.ngrams.levels, word_names(tokenizers.target))
        read_back, _ = _ngrams(read_arpa(draft), tokenizers.target, str(draft))
        return ExportedArpa(model.ngrams, _max_difference(model.ngrams, read_back))


def _max_difference(first: Ngrams, second: Ngrams) -> float:
    """Return the largest difference in log-probability or backoff of two models with the same n-grams."""
    largest = 0.0
    for a, b in zip(first.levels, second.levels, strict=True):
        assert np.array_equal(a.words, b.words) and np.array_equal(a.suffixes, b.suffixes)
        finite = np.isfinite(a.log_probs)
        largest = max(largest, float(np.abs(a.log_probs[finite] - b.log_probs[finite]).max(initial=0.0)))
        largest = max(largest, float(np.abs(a.backoffs - b.backoffs).max(initial=0.0)))
    return largest


def import_arpa(file: str | Path, out: str | Path, *, tokenizer: str | Path | None = None) -> ImportedArpa:
    """Create a run in `out` from an ARPA file whose words are separated by spaces in text.

    If they are pieces of another run's tokenizer instead, `tokenizer` names that run.
    """
    run = Run(Path(out))
    check_new_folder(run.folder)
    arpa = read_arpa(Path(file))
    tokenizers = Run.open(tokenizer).tokenizers() if tokenizer else _word_tokenizer(arpa.words)
    ngrams, notes = _ngrams(arpa, tokenizers.target, str(file))
    tree = {"model": {"name": "ngram", "order": ngrams.order}, "data": {"format": "text"}}
    write_imported(run, from_tree(tree, where="the ARPA file"), tokenizers, ngrams.to_tensors())
    return ImportedArpa(run, ngrams, notes)


def _word_tokenizer(words: Sequence[str]) -> TokenizerPair:
    """Return a word tokenizer with this vocabulary."""
    plain = [word for word in words if word not in _SPECIALS.values()]
    tokenizer = Tokenizer.train(
        plain,
        kind="word",
        vocab_size=len(plain) + len(_SPECIALS) + 1,
        normalize="none",
        lowercase=False,
        collapse_spaces=True,
        byte_fallback=False,
        tags=(),
    )
    return TokenizerPair(tokenizer, tokenizer)


def _ngrams(arpa: Arpa, tokenizer: Tokenizer, file: str) -> tuple[Ngrams, list[str]]:
    """Return the model in terms of a tokenizer's ids, with notes for the user."""
    ids = {name: id for id, name in enumerate(word_names(tokenizer))}
    for word in arpa.words:
        if word not in ids:
            raise SeqloomError(
                f"The word {word!r} in {file} is not in the vocabulary of the new run's tokenizer.",
                "if the words are pieces of a tokenizer, name a run with that tokenizer: --tokenizer RUN",
            )
    word_ids = np.array([ids[word] for word in arpa.words], np.int32)
    orders = [
        Entries(word_ids[order.rows], order.log_probs, order.backoffs, order.line) for order in arpa.orders
    ]
    first, missing = _unigrams(orders[0], tokenizer.size)
    notes = [f"{missing:,} pieces missing from the file share the probability of <unk>"] if missing else []
    return Ngrams(assemble([first, *orders[1:]], file)), notes


def _unigrams(given: Entries, vocabulary: int) -> tuple[Entries, int]:
    """Return an entry per id, and the number of ids that are missing: they and UNK share P(<unk>) equally."""
    rows = np.arange(vocabulary, dtype=np.int32)[:, None]
    probs, backoffs = np.full(vocabulary, np.nan), np.zeros(vocabulary)
    probs[given.rows[:, 0]], backoffs[given.rows[:, 0]] = given.log_probs, given.backoffs
    unknown = NEVER * np.log(10) if np.isnan(probs[UNK]) else probs[UNK]
    probs[[PAD, BOS]] = -np.inf
    missing = np.isnan(probs)
    missing[UNK] = True
    probs[missing] = unknown - np.log(missing.sum())
    return Entries(rows, probs, backoffs, given.line), int(missing.sum()) - 1
