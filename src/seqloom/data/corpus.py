"""A run's data: checked, split, tokenised once, and the same again when the run is resumed."""

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
from seqloom.data.readers import check_given, check_targets_are_text, has_trees, read_corpus, read_shard
from seqloom.data.report import DataReport, clean
from seqloom.data.shards import Shard, check_read_again, corpora
from seqloom.data.split import held_out_share, is_held_out
from seqloom.data.store import TokenStore, cache_key, remove_abandoned
from seqloom.data.stream import PairSource, StreamedShard, WindowStream
from seqloom.errors import SeqloomError
from seqloom.files import is_special, sha256
from seqloom.progress import counter
from seqloom.settings import Settings
from seqloom.system import make_cache_folder, only_cache_writer, processors
from seqloom.text.config import MASK, TextConfig
from seqloom.text.features import feature_file
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example

logger = logging.getLogger(__name__)

PARTS: tuple[Part, Part] = ("train", "valid")


class DataRecord(Settings):
    """data.json of a run: what the data was, so that a resumed run sees the same or says what changed."""

    files: dict[str, str]  # data file → its sha256
    held_out: float  # the share of the training file that is the validation part
    pairs: dict[str, int] = Field(default_factory=dict)  # training file → its pairs, held out or not
    length_ratio: float | None = None  # target characters per source character of the training pairs


@dataclass
class CharacterCounts:
    """Characters of the pairs counted so far."""

    source: int = 0
    target: int = 0

    def add(self, example: Example) -> int:
        """Count a pair; return 1."""
        self.source += len(example.source)
        self.target += len(example.target or "")
        return 1

    @property
    def ratio(self) -> float | None:
        """Target characters per source character; None of texts, which have no target."""
        return self.target / self.source if self.source and self.target else None


@dataclass(frozen=True)
class Prepared:
    """What training needs of the data."""

    tokenizers: TokenizerPair
    train: TokenStore | PairSource
    valid: TokenStore
    valid_part: Part  # "train": there is nothing else to look at
    valid_examples: Callable[[], Iterator[Example]]
    report: DataReport
    record: DataRecord
    mixture: Mixture | None  # None: every pair is once in an epoch
    pool: int  # pairs that are shuffled together

    @property
    def store(self) -> TokenStore:
        """All training pairs at once, for the models that are counted; these never get a stream."""
        assert isinstance(self.train, TokenStore)
        return self.train

    def batches(self, *, batch_tokens: int, seed: int) -> Batches:
        """The training pairs in batches."""
        if isinstance(self.train, PairSource):
            return WindowStream(self.train, batch_tokens=batch_tokens, seed=seed)
        return BatchStream(
            self.train, batch_tokens=batch_tokens, seed=seed, pool=self.pool, mixture=self.mixture
        )


class Corpus:
    """The pairs that a configuration names. Everything is read as a stream, in as many passes as needed."""

    def __init__(self, data: DataConfig, text: TextConfig) -> None:
        self.data, self.text = data, text

    def prepare(self, tokenizers: TokenizerPair | None = None) -> Prepared:
        """Read and check all data, train tokenizers if none are given, and write the token stores."""
        make_cache_folder("stores")  # if that fails, it is reported before the tokenizers are trained
        files, report = self._checksums(), DataReport()
        held_out, pairs, ratio = self._count(report)
        check_targets_are_text(self.data)
        record = DataRecord(files=files, held_out=held_out, pairs=pairs, length_ratio=ratio)
        tokenizers = tokenizers or self._trained_tokenizers(record)
        for note in tokenizers.notes:
            logger.info(f"tokenizer: {note}")
        prepared = self._prepared(tokenizers, record, report)
        report.refuse_if_mostly_gone()
        later = "; what the stream drops is told after each epoch" if self.data.stream else ""
        logger.info(f"data: {report.summary()}{later}")
        if prepared.valid_part == "train":
            if self.data.has("valid"):
                raise SeqloomError(
                    f"No validation pair is left: {report.summary()}.", "see data.max_length, or give others"
                )
            logger.info("data: too few pairs to hold any out, so validation measures the training pairs")
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
        now = self._checksums()
        for file in {**record.files, **now}:
            if now.get(file) != record.files.get(file):
                raise SeqloomError(
                    f"{file} has changed since the run was created, so training cannot continue exactly.",
                    "restore the file, or start a new run",
                )
        return self._prepared(tokenizers, record, DataReport())

    def _checksums(self) -> dict[str, str]:
        """The checksum of every data file."""
        sums = {}
        check_read_again(chain.from_iterable(self._shards(part) for part in PARTS))
        for file in (file for part in PARTS for shard in self._shards(part) for file in shard if file):
            try:
                sums[file] = sha256(Path(file))
            except OSError as error:
                raise SeqloomError(
                    f"The data file {file} cannot be read: {error.strerror}.", "check the path"
                ) from error
        for part in self._parts() if self.text.tokenizer == "frames" else ():
            sums[f"A file of features in the {part} data"] = self._feature_sum(part)
        return sums

    def _shards(self, part: Part) -> list[Shard]:
        return list(chain.from_iterable(corpora(self.data, part)))

    def _parts(self) -> list[Part]:
        """The parts that are read from files; if none are named for training, reading says so."""
        return [part for part in PARTS if self.data.has(part) or part == "train"]

    def _feature_sum(self, part: Part) -> str:
        """Return one checksum of all feature files that the sources name, without missing ones and pipes."""
        digest = hashlib.sha256()
        files = (feature_file(example.source) for example in read_corpus(self.data, part, DataReport()))
        for file in filterfalse(is_special, dict.fromkeys(files)):
            with suppress(OSError):
                digest.update(bytes.fromhex(sha256(Path(file))))
        return digest.hexdigest()

    def _count(self, report: DataReport) -> tuple[float, dict[str, int], float | None]:
        """Fill the report in one pass.

        Return the share of the training data to hold out, the pairs by file, and the ratio of their lengths.
        """
        counts: dict[Part, dict[str, int]] = {}
        lengths: dict[Part, CharacterCounts] = {}
        for part in self._parts():
            check_given(self.data, part)
            own, lengths[part] = DataReport(), CharacterCounts()
            counts[part] = {
                shard.file: sum(map(lengths[part].add, self._clean(shard, own))) for shard in self._shards(part)
            }
            own.refuse_if_mostly_gone()
            report.add(own)
        pairs, ratio = counts["train"], lengths["train"].ratio
        if "valid" in counts:
            return 0.0, pairs, ratio
        share = held_out_share(sum(pairs.values()), self.data.valid_share, self.data.valid_max)
        return share, pairs, ratio

    def _clean(self, shard: Shard, report: DataReport) -> Iterator[Example]:
        return clean(read_shard(self.data, shard, report), report)

    def _examples(self, part: Part, record: DataRecord) -> Iterator[Example]:
        """The clean pairs of a part; the report was filled by the first pass."""
        unheard = DataReport()
        if part == "valid" and self.data.has("valid"):
            yield from clean(read_corpus(self.data, "valid", unheard), unheard)
            return
        for example in clean(read_corpus(self.data, "train", unheard), unheard):
            if self._is_held_out(example, record) == (part == "valid"):
                yield example

    def _is_held_out(self, example: Example, record: DataRecord) -> bool:
        return record.held_out > 0 and is_held_out(self._name(example), record.held_out)

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

    def _prepared(self, tokenizers: TokenizerPair, record: DataRecord, report: DataReport) -> Prepared:
        stored, valid = (self._store(part, tokenizers, record) for part in PARTS)
        report.add(valid.report)
        if self.data.stream:  # what is in the store is the beginning of it
            looked = stored.report
            looked.total = len(stored) + looked.dropped
            looked.refuse_if_mostly_gone()
        else:
            report.add(stored.report)
        # A corpus of a few pairs may have nothing to hold out; then the training pairs are looked at.
        part: Part = "valid" if len(valid) else "train"
        looked_at = valid if len(valid) else stored
        mixture = self._mixture(record.pairs if self.data.stream else stored.files)
        return Prepared(
            tokenizers=tokenizers,
            train=self._source(tokenizers, record, mixture) if self.data.stream else stored,
            valid=looked_at,
            valid_part=part,
            valid_examples=lambda: self._readable(part, record, looked_at),
            report=report,
            record=record,
            mixture=mixture,
            pool=self.data.shuffle_buffer,
        )

    def _mixture(self, pairs: Mapping[str, int]) -> Mixture | None:
        """How the corpora are mixed, if they are; there are so many pairs of each file."""
        if not self.data.is_mixed:
            return None
        parts = corpora(self.data, "train")
        files = Counter(shard.file for shards in parts for shard in shards)
        file, times = files.most_common(1)[0]
        if times > 1:
            raise SeqloomError(f"{file} is in {times} corpora of data.train.", "a weight needs it in one")
        sizes = [sum(pairs.get(shard.file, 0) for shard in shards) for shards in parts]
        if 0 in sizes:
            name = (*self.data.train, self.data.source)[sizes.index(0)]
            raise SeqloomError(f"The corpus {name} has no pair to draw.", "leave it out of the mixture")
        temperature = self.data.temperature
        weights = by_temperature(sizes, temperature) if temperature else self.data.weights
        return Mixture(sizes, weights, window=self.data.shuffle_buffer)

    def _source(self, tokenizers: TokenizerPair, record: DataRecord, mixture: Mixture | None) -> PairSource:
        """The training data as a stream."""
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
        """The token store of a part, from the cache if it was written before; of a stream its beginning."""
        # Noise is drawn anew whenever a batch is made; the others say in which order pairs are taken.
        options = self.data.model_dump_json(exclude={"noise", "weights", "temperature", "shuffle_buffer"})
        state = record.model_dump_json(include={"files", "held_out"})
        stores = make_cache_folder("stores")
        remove_abandoned(stores)
        folder = stores / cache_key(part, tokenizers.fingerprint, options, state)
        if TokenStore.is_sound(folder):
            return TokenStore.open(folder)
        with only_cache_writer(folder):
            if TokenStore.is_sound(folder):  # another process has written it in the meantime
                return TokenStore.open(folder)
            if folder.exists():
                logger.warning(f"The token store {folder} is damaged or old; it is written again.")
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


def keep_standard_input() -> str:
    """A file in the cache with the content of standard input: training reads its data more than once."""
    folder, digest = make_cache_folder("stdin"), hashlib.sha256()
    entry = folder / uuid4().hex
    with only_cache_writer(entry):
        draft = entry.with_name(f".{entry.name}.tmp")
        with draft.open("wb") as file:
            while block := sys.stdin.buffer.read(1 << 20):
                digest.update(block)
                file.write(block)
        path = folder / digest.hexdigest()  # no suffix: pairs or text, as the model wants it
        draft.replace(path)
    return str(path)
