"""A run's data: checked, split, tokenised once, and the same again when the run is resumed."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seqloom.data.config import DataConfig, Part
from seqloom.data.readers import has_trees, read_corpus
from seqloom.data.report import DataReport, clean
from seqloom.data.split import held_out_share, is_held_out
from seqloom.data.store import TokenStore, cache_key
from seqloom.errors import SeqloomError
from seqloom.files import read_json, sha256
from seqloom.machine import make_cache_folder, processors
from seqloom.progress import counter
from seqloom.run import Run
from seqloom.settings import Settings
from seqloom.text.config import MASK, TextConfig
from seqloom.text.features import feature_file
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example

Say = Callable[[str], None]
PARTS: tuple[Part, Part] = ("train", "valid")


class DataRecord(Settings):
    """data.json of a run: what the data was, so that a resumed run sees the same or says what changed."""

    files: dict[str, str]  # data file → its sha256
    held_out: float  # the share of the training file that is the validation part


@dataclass(frozen=True)
class Prepared:
    """What training needs of the data."""

    tokenizers: TokenizerPair
    train: TokenStore
    valid: TokenStore
    valid_examples: Callable[[], Iterator[Example]]
    report: DataReport
    record: DataRecord


class Corpus:
    """The pairs that a configuration names. Everything is read as a stream, in as many passes as needed."""

    def __init__(self, data: DataConfig, text: TextConfig) -> None:
        self.data, self.text = data, text

    def prepare(self, say: Say, tokenizers: TokenizerPair | None = None) -> Prepared:
        """Reads and checks everything, trains tokenizers if none are given, and writes the token stores."""
        files, report = self._checksums(), DataReport()
        record = DataRecord(files=files, held_out=self._count(report))
        tokenizers = tokenizers or TokenizerPair.train(
            self.text,
            lambda: ((e.source, e.target or "") for e in self._examples("train", record)),
            symbols=() if self.data.noise.kind == "none" else (MASK,),
        )
        for note in tokenizers.notes:
            say(f"tokenizer: {note}")
        prepared = self._stores(tokenizers, record, report)
        report.refuse_if_mostly_gone()
        say(f"data: {report.summary()}")
        if prepared.valid is prepared.train:
            if self.data.has("valid"):
                raise SeqloomError(
                    f"No validation pair is left: {report.summary()}.", "see data.max_length, or give others"
                )
            say("data: too few pairs to hold any out, so validation measures the training pairs")
        return prepared

    def reopen(self, run: Run) -> Prepared:
        """The data of an existing run; if a file has changed since, an error says which."""
        record = DataRecord.checked(read_json(run.data_file), "data", where=str(run.data_file))
        now = self._checksums()
        for file, digest in record.files.items():
            if now.get(file) != digest:
                raise SeqloomError(
                    f"{file} has changed since the run {run.folder} began, so it cannot go on exactly.",
                    "restore the file, or start a new run",
                )
        return self._stores(run.tokenizers(), record, DataReport())

    def _checksums(self) -> dict[str, str]:
        """The checksum of every data file."""
        data = self.data
        single = (data.source, data.target, data.valid_source, data.valid_target)
        sums = {}
        for file in (*data.train, *data.valid, *(name for name in single if name)):
            try:
                sums[file] = sha256(Path(file))
            except OSError as error:
                raise SeqloomError(
                    f"The data file {file} cannot be read: {error.strerror}.", "check the path"
                ) from error
        for part in self._parts() if self.text.tokenizer == "frames" else ():
            sums[f"A file of features in the {part} data"] = self._feature_sum(part)
        return sums

    def _parts(self) -> list[Part]:
        """The parts that are read from files; if none are named for training, reading says so."""
        return [part for part in PARTS if self.data.has(part) or part == "train"]

    def _feature_sum(self, part: Part) -> str:
        """One checksum of all the files of features that the sources name; a missing one is left out."""
        digest = hashlib.sha256()
        files = (feature_file(example.source) for example in read_corpus(self.data, part, DataReport()))
        for file in dict.fromkeys(files):
            with suppress(OSError):
                digest.update(bytes.fromhex(sha256(Path(file))))
        return digest.hexdigest()

    def _count(self, report: DataReport) -> float:
        """One pass that fills the report; the share of the training file to hold out."""
        counts: dict[Part, int] = {}
        for part in self._parts():
            own = DataReport()
            counts[part] = sum(1 for _ in clean(read_corpus(self.data, part, own), own))
            own.refuse_if_mostly_gone()
            report.total += own.total
            report.lines += own.lines
        if "valid" in counts:
            return 0.0
        return held_out_share(counts["train"], self.data.valid_share, self.data.valid_max)

    def _examples(self, part: Part, record: DataRecord) -> Iterator[Example]:
        """The clean pairs of a part; the report was filled by the first pass."""
        unheard = DataReport()
        if part == "valid" and self.data.has("valid"):
            yield from clean(read_corpus(self.data, "valid", unheard), unheard)
            return
        for example in clean(read_corpus(self.data, "train", unheard), unheard):
            if is_held_out(self._name(example), record.held_out) == (part == "valid"):
                yield example

    def _name(self, example: Example) -> str:
        """What tells a source from others: of a file of features the path from its table, wherever that is."""
        if self.text.tokenizer != "frames":
            return example.source
        return os.path.relpath(example.source, os.path.dirname(example.file) or ".")

    def _readable(self, part: Part, record: DataRecord, store: TokenStore) -> Iterator[Example]:
        """The pairs of a part without those whose file of features cannot be read."""
        if not store.features:
            return self._examples(part, record)
        dropped = {(line.file, line.line) for line in store.report.lines if line.dropped}
        return (e for e in self._examples(part, record) if (e.file, e.line) not in dropped)

    def _stores(self, tokenizers: TokenizerPair, record: DataRecord, report: DataReport) -> Prepared:
        train, valid = (self._store(part, tokenizers, record) for part in PARTS)
        for store in (train, valid):
            report.lines += store.report.lines
        # A corpus of a few pairs may have nothing to hold out; then the training pairs are looked at.
        part: Part = "valid" if len(valid) else "train"
        looked_at = valid if len(valid) else train
        return Prepared(
            tokenizers=tokenizers,
            train=train,
            valid=looked_at,
            valid_examples=lambda: self._readable(part, record, looked_at),
            report=report,
            record=record,
        )

    def _store(self, part: Part, tokenizers: TokenizerPair, record: DataRecord) -> TokenStore:
        """The token store of a part, from the cache if it was written before."""
        options = self.data.model_dump_json(exclude={"noise"})  # drawn anew whenever a batch is made
        key = cache_key(part, tokenizers.fingerprint, options, record.model_dump_json())
        folder = make_cache_folder("stores") / key
        if TokenStore.is_complete(folder):
            return TokenStore.open(folder)
        with counter(f"tokenised ({part})") as advance:
            return TokenStore.write(
                folder,
                self._examples(part, record),
                tokenizers,
                max_length=self.data.max_length,
                max_frames=self.data.max_frames,
                long=self.data.long,
                trees=has_trees(self.data, part if self.data.has(part) else "train"),
                on_progress=advance,
                threads=processors(),
            )


def keep_standard_input() -> str:
    """A file in the cache with the content of standard input: training reads its data more than once."""
    folder = make_cache_folder("stdin")
    content = sys.stdin.buffer.read()
    path = folder / hashlib.sha256(content).hexdigest()  # no suffix: pairs or text, as the model wants it
    partial = path.with_suffix(".part")
    partial.write_bytes(content)
    partial.replace(path)
    return str(path)
