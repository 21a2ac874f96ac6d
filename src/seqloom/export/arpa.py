"""n-gram runs as ARPA files, and ARPA files as runs."""

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
# What other programs may take for the end of a word, and control characters.
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class ImportedArpa:
    """The new run and its model."""

    run: Run
    ngrams: Ngrams
    notes: list[str]


@dataclass(frozen=True)
class ExportedArpa:
    """The model that was written, and by how much its numbers in the file differ at the most."""

    ngrams: Ngrams
    difference: float


def word_names(tokenizer: Tokenizer) -> list[str]:
    """A word for every id, no two the same and none with white space: its piece.

    A character that cannot stand in a word is written by its number, <U+0020>; of two pieces that look alike,
    the later one has its id behind it.
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
    """Writes the n-grams of a run to a file, packed if its name ends with .gz, and reads them again."""
    path = Path(out)
    check_can_write(path)
    run = Run.open(folder)
    if not isinstance(run.config().model, NgramSettings):
        raise SeqloomError(
            f"The model in {folder} is no n-gram model, and an ARPA file holds nothing else.",
            "train with --model ngram",
        )
    model, tokenizers = load_fitted(run, checkpoint=checkpoint)
    assert isinstance(model, NgramModel)
    with write_errors(path), draft_file(path) as draft:
        write_arpa(draft, model.ngrams.levels, word_names(tokenizers.target))
        again, _ = _ngrams(read_arpa(draft), tokenizers.target, str(draft))
        return ExportedArpa(model.ngrams, _difference(model.ngrams, again))


def _difference(here: Ngrams, there: Ngrams) -> float:
    """How far log probabilities and backoffs of two models with the same n-grams are apart at the most."""
    apart = 0.0
    for ours, theirs in zip(here.levels, there.levels, strict=True):
        assert np.array_equal(ours.words, theirs.words) and np.array_equal(ours.suffixes, theirs.suffixes)
        seen = np.isfinite(ours.log_probs)
        apart = max(apart, float(np.abs(ours.log_probs[seen] - theirs.log_probs[seen]).max(initial=0.0)))
        apart = max(apart, float(np.abs(ours.backoffs - theirs.backoffs).max(initial=0.0)))
    return apart


def import_arpa(file: str | Path, out: str | Path, *, tokenizer: str | Path | None = None) -> ImportedArpa:
    """A run in `out` with the model of an ARPA file, whose words are those of a text between spaces.

    If they are pieces of another run's tokenizer, `tokenizer` names that run.
    """
    run = Run(Path(out))
    check_new_folder(run.folder)
    arpa = read_arpa(Path(file))
    tokenizers = Run.open(tokenizer).tokenizers() if tokenizer else _of_words(arpa.words)
    ngrams, notes = _ngrams(arpa, tokenizers.target, str(file))
    tree = {"model": {"name": "ngram", "order": ngrams.order}, "data": {"format": "text"}}
    write_imported(run, from_tree(tree, where="the ARPA file"), tokenizers, ngrams.to_tensors())
    return ImportedArpa(run, ngrams, notes)


def _of_words(words: Sequence[str]) -> TokenizerPair:
    """A tokenizer that knows these words."""
    plain = [word for word in words if word not in _SPECIALS.values()]
    one = Tokenizer.train(
        plain,
        kind="word",
        vocab_size=len(plain) + len(_SPECIALS) + 1,
        normalize="none",
        lowercase=False,
        collapse_spaces=True,
        byte_fallback=False,
        tags=(),
    )
    return TokenizerPair(one, one)


def _ngrams(arpa: Arpa, tokenizer: Tokenizer, file: str) -> tuple[Ngrams, list[str]]:
    """The model over the ids of a tokenizer."""
    ids = {name: id for id, name in enumerate(word_names(tokenizer))}
    for word in arpa.words:
        if word not in ids:
            raise SeqloomError(
                f"{file} has the word {word!r}, which the tokenizer of the new run cannot have.",
                "if the words are pieces of a tokenizer, name the run that has it: --tokenizer RUN",
            )
    places = np.array([ids[word] for word in arpa.words], np.int32)
    orders = [Entries(places[one.rows], one.log_probs, one.backoffs, one.line) for one in arpa.orders]
    first, missing = _unigrams(orders[0], tokenizer.size)
    notes = [f"{missing:,} pieces that the file lacks share the probability of <unk>"] if missing else []
    return Ngrams(assemble([first, *orders[1:]], file)), notes


def _unigrams(given: Entries, vocabulary: int) -> tuple[Entries, int]:
    """An entry per id, and how many the file lacks: these and UNK have equal shares of what is unknown."""
    rows = np.arange(vocabulary, dtype=np.int32)[:, None]
    probs, backoffs = np.full(vocabulary, np.nan), np.zeros(vocabulary)
    probs[given.rows[:, 0]], backoffs[given.rows[:, 0]] = given.log_probs, given.backoffs
    unknown = NEVER * np.log(10) if np.isnan(probs[UNK]) else probs[UNK]
    probs[[PAD, BOS]] = -np.inf
    lacking = np.isnan(probs)
    lacking[UNK] = True
    probs[lacking] = unknown - np.log(lacking.sum())
    return Entries(rows, probs, backoffs, given.line), int(lacking.sum()) - 1
