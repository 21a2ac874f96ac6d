"""A run's data: checked, split, tokenised once, and the same again when the run is resumed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport, clean
from seqloom.data.split import held_out_share, is_held_out
from seqloom.data.store import TokenStore, cache_key
from seqloom.errors import SeqloomError
from seqloom.files import sha256
from seqloom.machine import cache_folder, processors
from seqloom.run import Run
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """What training needs of the data."""

    tokenizers: TokenizerPair
    train: TokenStore
    valid: TokenStore
    valid_examples: Callable[[], Iterator[Example]]
    report: DataReport
    fingerprints: dict[str, str] = field(default_factory=dict)  # data file → its sha256


class Corpus:
    """The pairs that a configuration names. Everything is read as a stream, in as many passes as needed."""

    def __init__(self, data: DataConfig, text: TextConfig) -> None:
        self.data, self.text = data, text
        self.cache = cache_folder()
        self._share = 0.0

    def prepare(self, say: Say) -> Prepared:
        """Reads and checks everything, trains the tokenizers and writes the token stores."""
        fingerprints = self._fingerprints()
        report = DataReport()
        self._count(report)
        report.refuse_if_mostly_gone()
        tokenizers = TokenizerPair.train(
            self.text, lambda: ((e.source, e.target or "") for e in self._examples("train"))
        )
        for note in tokenizers.notes:
            say(f"tokenizer: {note}")
        prepared = self._stores(tokenizers, fingerprints, report)
        report.refuse_if_mostly_gone()
        say(f"data: {report.summary()}")
        return prepared

    def reopen(self, run: Run, say: Say) -> Prepared:
        """The data of an existing run; if a file has changed since, an error says which."""
        recorded: dict[str, str] = json.loads(run.data_file.read_text(encoding="utf-8"))
        tokenizers = run.tokenizers()
        now = self._fingerprints()
        for file, digest in recorded.items():
            if now.get(file) != digest:
                raise SeqloomError(
                    f"{file} has changed since the run {run.folder} began, so it cannot go on exactly.",
                    "restore the file, or start a new run",
                )
        report = DataReport()
        self._count(report)
        return self._stores(tokenizers, now, report)

    def _fingerprints(self) -> dict[str, str]:
        """The checksum of every file."""
        files = [*self.data.train, *self.data.valid]
        files += [
            file
            for file in (self.data.source, self.data.target, self.data.valid_source, self.data.valid_target)
            if file
        ]
        sums = {}
        for file in files:
            try:
                sums[file] = sha256(Path(file))
            except OSError as error:
                raise SeqloomError(
                    f"The data file {file} cannot be read: {error.strerror}.", "check the path"
                ) from error
        return sums

    def _count(self, report: DataReport) -> None:
        """One pass that fills the report and decides how much is held out."""
        total = sum(1 for _ in clean(read_corpus(self.data, "train", report), report))
        if self.data.has("valid"):
            for _ in clean(read_corpus(self.data, "valid", report), report):
                pass
        else:
            self._share = held_out_share(total, self.data.valid_share, self.data.valid_max)

    def _examples(self, part: Literal["train", "valid"]) -> Iterator[Example]:
        """The clean pairs of a part; the report was filled by the first pass."""
        unheard = DataReport()
        if part == "valid" and self.data.has("valid"):
            yield from clean(read_corpus(self.data, "valid", unheard), unheard)
            return
        for example in clean(read_corpus(self.data, "train", unheard), unheard):
            if is_held_out(example.source, self._share) == (part == "valid"):
                yield example

    def _stores(self, tokenizers: TokenizerPair, fingerprints: dict[str, str], report: DataReport) -> Prepared:
        train = self._store("train", tokenizers, fingerprints)
        valid = self._store("valid", tokenizers, fingerprints)
        for store in (train, valid):
            report.lines += store.report.lines
        held_out = len(valid) > 0
        return Prepared(
            tokenizers=tokenizers,
            train=train,
            valid=valid if held_out else train,
            valid_examples=lambda: self._examples("valid" if held_out else "train"),
            report=report,
            fingerprints=fingerprints,
        )

    def _store(
        self,
        part: Literal["train", "valid"],
        tokenizers: TokenizerPair,
        fingerprints: dict[str, str],
    ) -> TokenStore:
        key = cache_key(
            part, tokenizers.fingerprint, self.data.model_dump_json(), json.dumps(fingerprints, sort_keys=True)
        )
        folder = self.cache / "stores" / key
        if TokenStore.is_complete(folder):
            return TokenStore.open(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return TokenStore.write(
            folder,
            self._examples(part),
            tokenizers,
            max_length=self.data.max_length,
            long=self.data.long,
            threads=processors(),
        )


def keep_standard_input() -> str:
    """A file in the cache with the content of standard input: training reads its data more than once."""
    folder = cache_folder() / "stdin"
    folder.mkdir(parents=True, exist_ok=True)
    content = sys.stdin.buffer.read()
    path = folder / f"{hashlib.sha256(content).hexdigest()}.tsv"
    partial = path.with_suffix(".part")
    partial.write_bytes(content)
    partial.replace(path)
    return str(path)
