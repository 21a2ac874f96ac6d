"""Data of a run: checked, split, tokenised once, and reproduced exactly when the run is resumed."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, filterfalse, islice
from pathlib import Path
from uuid import uuid4

from pydantic import Field

from seqloom.data.batching import Batches, BatchStream
from seqloom.data.config import DataConfig, Part
from seqloom.data.encoding import Numericalizer
from seqloom.data.mixture import Mixture, by_temperature
from seqloom.data.readers import check_has_files, check_targets_are_text, has_trees, read_corpus, read_shard
from seqloom.data.report import DataReport, clean
from seqloom.data.shards import Shard, check_rereadable, corpora
from seqloom.data.split import held_out_share, is_held_out
from seqloom.data.store import TokenStore, cache_key, remove_abandoned
from seqloom.data.stream import PairSource, StreamedShard, WindowStream
from seqloom.errors import SeqloomError
from seqloom.files import is_special, sha256
from seqloom.progress import counter
from seqloom.settings import Settings
from seqloom.system import make_cache_folder, only_cache_writer, processors
from seqloom.text.config import MASK, Side, TextConfig
from seqloom.text.features import feature_file
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example

logger = logging.getLogger(__name__)

PARTS: tuple[Part, Part] = ("train", "valid")


class DataRecord(Settings):
    """Content of data.json, by which a resumed run detects data files that have changed."""

    files: dict[str, str]  # data file → sha256
    held_out: float  # fraction of the training data that is held out for validation
    pairs: dict[str, int] = Field(default_factory=dict)  # training file → pairs, including held-out ones
    length_ratio: float | None = None  # target characters per source character in the training pairs


@dataclass
class CharacterCounts:
    """Running character counts of both sides."""

    source: int = 0
    target: int = 0

    def add(self, example: Example) -> int:
        """Count a pair; return 1."""
        self.source += len(example.source)
        self.target += len(example.target or "")
        return 1

    @property
    def ratio(self) -> float | None:
        """Target characters per source character; None for text without targets."""
        return self.target / self.source if self.source and self.target else None


@dataclass(frozen=True)
class Prepared:
    """Data prepared for training."""

    tokenizers: TokenizerPair
    train: TokenStore | PairSource
    valid: TokenStore
    valid_part: Part  # "train" if no pairs are held out
    train_examples: Callable[[], Iterator[Example]]
    valid_examples: Callable[[], Iterator[Example]]
    report: DataReport
    record: DataRecord
    mixture: Mixture | None  # None: every pair once per epoch
    pool: int  # number of pairs shuffled together

    @property
    def store(self) -> TokenStore:
        """Training pairs as a store, for count-based models, which do not support streams."""
        assert isinstance(self.train, TokenStore)
        return self.train

    def batches(self, *, batch_tokens: int, seed: int) -> Batches:
        """Return the training pairs in batches."""
        if isinstance(self.train, PairSource):
            return WindowStream(self.train, batch_tokens=batch_tokens, seed=seed)
        return BatchStream(
            self.train, batch_tokens=batch_tokens, seed=seed, pool=self.pool, mixture=self.mixture
        )


class Corpus:
    """Pairs of a configuration, read as a stream in as many passes as needed."""

    def __init__(self, data: DataConfig, text: TextConfig) -> None:
        self.data, self.text = data, text

    def prepare(self, tokenizers: TokenizerPair | None = None) -> Prepared:
        """Read and check all data, train tokenizers if none are given, and write the token stores."""
        make_cache_folder("stores")  # fail before training tokenizers, not after
        files, report = self.checksums(), DataReport()
        held_out, pairs, ratio = self._count(report)
        if not self.text.writes_vectors:
            check_targets_are_text(self.data)
        record = DataRecord(files=files, held_out=held_out, pairs=pairs, length_ratio=ratio)
        tokenizers = tokenizers or self._trained_tokenizers(record)
        for note in tokenizers.notes:
            logger.info(f"tokenizer: {note}")
        prepared = self._prepared(tokenizers, record, report)
        report.raise_if_mostly_dropped()
        later = "; lines dropped from the stream are reported after each epoch" if self.data.stream else ""
        logger.info(f"data: {report.summary()}{later}")
        if prepared.valid_part == "train":
            if self.data.has("valid"):
                raise SeqloomError(
                    f"No validation pairs are left: {report.summary()}.", "check data.max_length and the data"
                )
            logger.info("data: too few pairs to hold any out, so validation uses the training pairs")
        return prepared

    def _trained_tokenizers(self, record: DataRecord) -> TokenizerPair:
        logger.info(f"tokenizer: training on {sum(record.pairs.values()):,} lines")
        return TokenizerPair.train(
            self.text,
            lambda: ((e.source, e.target or "") for e in self._examples("train", record)),
            symbols=() if self.data.noise.kind == "none" else (MASK,),
        )

    def reopen(self, record: DataRecord, tokenizers: TokenizerPair) -> Prepared:
        """Return the recorded data, encoded by its tokenizers; raise if a file has changed since."""
        now = self.checksums()
        for file in {**record.files, **now}:
            if now.get(file) != record.files.get(file):
                raise SeqloomError(
                    f"{file} has changed since the run was created, so training cannot be resumed exactly.",
                    "restore the file, or start a new run",
                )
        return self._prepared(tokenizers, record, DataReport())

    def checksums(self) -> dict[str, str]:
        """Return the checksum of each data file."""
        sums = {}
        check_rereadable(chain.from_iterable(self._shards(part) for part in PARTS))
        for file in (file for part in PARTS for shard in self._shards(part) for file in shard if file):
            try:
                sums[file] = sha256(Path(file))
            except OSError as error:
                raise SeqloomError(
                    f"Cannot read the data file {file}: {error.strerror}.", "check the path"
                ) from error
        for part in self._parts():
            if self.text.tokenizer == "frames":
                sums[f"A file of features in the {part} data"] = self._feature_checksum(part, "source")
            if self.text.writes_vectors:
                sums[f"A target array in the {part} data"] = self._feature_checksum(part, "target")
        return sums

    def _shards(self, part: Part) -> list[Shard]:
        return list(chain.from_iterable(corpora(self.data, part)))

    def _parts(self) -> list[Part]:
        """Return the parts to read; a missing training part is included, and reading it raises an error."""
        return [part for part in PARTS if self.data.has(part) or part == "train"]

    def _feature_checksum(self, part: Part, side: Side) -> str:
        """Return one checksum of all feature files of a side, without missing files and pipes."""
        digest = hashlib.sha256()
        examples = read_corpus(self.data, part, DataReport())
        files = (feature_file(one.source if side == "source" else one.target or "") for one in examples)
        for file in filterfalse(is_special, dict.fromkeys(files)):
            with suppress(OSError):
                digest.update(bytes.fromhex(sha256(Path(file))))
        return digest.hexdigest()

    def _count(self, report: DataReport) -> tuple[float, dict[str, int], float | None]:
        """Fill the report in one pass.

        Return the fraction of training data to hold out, the number of pairs by file, and their length ratio.
        """
        counts: dict[Part, dict[str, int]] = {}
        lengths: dict[Part, CharacterCounts] = {}
        for part in self._parts():
            check_has_files(self.data, part)
            part_report, lengths[part] = DataReport(), CharacterCounts()
            counts[part] = {
                shard.file: sum(map(lengths[part].add, self._clean(shard, part_report)))
                for shard in self._shards(part)
            }
            part_report.raise_if_mostly_dropped()
            report.add(part_report)
        pairs, ratio = counts["train"], lengths["train"].ratio
        if "valid" in counts:
            return 0.0, pairs, ratio
        share = held_out_share(sum(pairs.values()), self.data.valid_share, self.data.valid_max)
        return share, pairs, ratio

    def _clean(self, shard: Shard, report: DataReport) -> Iterator[Example]:
        return clean(read_shard(self.data, shard, report), report)

    def _examples(self, part: Part, record: DataRecord) -> Iterator[Example]:
        """Yield the clean pairs of a part; the first pass has already filled the report."""
        unused = DataReport()
        if part == "valid" and self.data.has("valid"):
            yield from clean(read_corpus(self.data, "valid", unused), unused)
            return
        for example in clean(read_corpus(self.data, "train", unused), unused):
            if self._is_held_out(example, record) == (part == "valid"):
                yield example

    def _is_held_out(self, example: Example, record: DataRecord) -> bool:
        return record.held_out > 0 and is_held_out(self._split_key(example), record.held_out)

    def _split_key(self, example: Example) -> str:
        """Return the text that decides whether a source is held out.

        This is the source, or for a feature file its path relative to the table, so that data can be moved.
        """
        if self.text.tokenizer != "frames":
            return example.source
        return os.path.relpath(example.source, os.path.dirname(example.file) or ".")

    def _readable(self, part: Part, record: DataRecord, store: TokenStore) -> Iterator[Example]:
        """Return the pairs of a part, without those whose feature file cannot be read."""
        if not store.features and not store.target_features:
            return self._examples(part, record)
        dropped = {(line.file, line.line) for line in store.report.lines if line.dropped}
        return (e for e in self._examples(part, record) if (e.file, e.line) not in dropped)

    def _prepared(self, tokenizers: TokenizerPair, record: DataRecord, report: DataReport) -> Prepared:
        stored, valid = (self._store(part, tokenizers, record) for part in PARTS)
        report.add(valid.report)
        if self.data.stream:  # the store holds only the beginning of the stream
            beginning = stored.report
            beginning.total = len(stored) + beginning.dropped
            beginning.raise_if_mostly_dropped()
        else:
            report.add(stored.report)
        # A tiny corpus may have no held-out pairs; validation then uses the training pairs.
        part: Part = "valid" if len(valid) else "train"
        validation_store = valid if len(valid) else stored
        mixture = self._mixture(record.pairs if self.data.stream else stored.files)
        return Prepared(
            tokenizers=tokenizers,
            train=self._source(tokenizers, record, mixture) if self.data.stream else stored,
            valid=validation_store,
            valid_part=part,
            train_examples=lambda: self._readable("train", record, stored),
            valid_examples=lambda: self._readable(part, record, validation_store),
            report=report,
            record=record,
            mixture=mixture,
            pool=self.data.shuffle_buffer,
        )

    def _mixture(self, pairs: Mapping[str, int]) -> Mixture | None:
        """Return the mixture of the corpora, if they are mixed; `pairs` is the number of pairs by file."""
        if not self.data.is_mixed:
            return None
        parts = corpora(self.data, "train")
        files = Counter(shard.file for shards in parts for shard in shards)
        file, times = files.most_common(1)[0]
        if times > 1:
            raise SeqloomError(
                f"{file} is in {times} entries of data.train.", "a weighted mixture must contain each file once"
            )
        sizes = [sum(_pairs_of(shard, pairs) for shard in shards) for shards in parts]
        if 0 in sizes:
            name = (*self.data.train, self.data.source)[sizes.index(0)]
            raise SeqloomError(f"The corpus {name} has no pairs.", "remove it from the mixture")
        temperature = self.data.temperature
        weights = by_temperature(sizes, temperature) if temperature else self.data.weights
        return Mixture(sizes, weights, window=self.data.shuffle_buffer)

    def _source(self, tokenizers: TokenizerPair, record: DataRecord, mixture: Mixture | None) -> PairSource:
        """Return the training data as a stream."""
        parts = corpora(self.data, "train") if mixture else [self._shards("train")]
        shards = [[self._streamed(shard, record) for shard in part] for part in parts]
        sizes = [sum(shard.pairs for shard in part) for part in shards]
        return PairSource(
            corpora=shards,
            mixture=mixture or Mixture(sizes, [1.0], window=self.data.shuffle_buffer),
            keep=lambda example: not self._is_held_out(example, record),
            encoder=self._encoder("train", tokenizers, threads=1),
        )

    def _streamed(self, shard: Shard, record: DataRecord) -> StreamedShard:
        return StreamedShard(record.pairs[shard.file], lambda: self._clean(shard, DataReport()))

    def _encoder(self, part: Part, tokenizers: TokenizerPair, *, threads: int) -> Numericalizer:
        return Numericalizer(
            tokenizers,
            max_length=self.data.max_length,
            max_frames=self.data.max_frames,
            long=self.data.long,
            trees=has_trees(self.data, part if self.data.has(part) else "train"),
            threads=threads,
        )

    def _store(self, part: Part, tokenizers: TokenizerPair, record: DataRecord) -> TokenStore:
        """Return the token store of a part, from the cache if possible; for a stream, of its beginning."""
        # Excluded: noise, which is drawn for each batch, and options that only affect the order of pairs.
        options = self.data.model_dump_json(
            exclude={"noise", "weights", "temperature", "shuffle_buffer", "languages"}
        )
        state = record.model_dump_json(include={"files", "held_out"})
        stores = make_cache_folder("stores")
        remove_abandoned(stores)
        folder = stores / cache_key(part, tokenizers.fingerprint, options, state)
        if TokenStore.is_sound(folder):
            return TokenStore.open(folder)
        with only_cache_writer(folder):
            if TokenStore.is_sound(folder):  # written by another process in the meantime
                return TokenStore.open(folder)
            if folder.exists():
                logger.warning(f"Token store {folder} is damaged or outdated; writing it again.")
            return self._write_store(folder, part, tokenizers, record)

    def _write_store(
        self, folder: Path, part: Part, tokenizers: TokenizerPair, record: DataRecord
    ) -> TokenStore:
        examples = self._examples(part, record)
        if self.data.stream and part == "train":
            examples = islice(examples, self.data.valid_max)
        with counter(f"tokenised ({part})") as advance:
            return TokenStore.write(
                folder, examples, self._encoder(part, tokenizers, threads=processors()), on_progress=advance
            )


def _pairs_of(shard: Shard, pairs: Mapping[str, int]) -> int:
    """Return the number of pairs of a file, or of all files in an archive."""
    inside = sum(count for file, count in pairs.items() if file.startswith(f"{shard.file}/"))
    return pairs.get(shard.file, 0) + inside


def keep_standard_input() -> str:
    """Copy standard input to a file in the cache and return its path: training reads data more than once."""
    folder, digest = make_cache_folder("stdin"), hashlib.sha256()
    entry = folder / uuid4().hex
    with only_cache_writer(entry):
        draft = entry.with_name(f".{entry.name}.tmp")
        with draft.open("wb") as file:
            while block := sys.stdin.buffer.read(1 << 20):
                digest.update(block)
                file.write(block)
        path = folder / digest.hexdigest()  # no suffix: pairs or text, depending on the model
        draft.replace(path)
    return str(path)
