"""Decoding of source sentences to their best derivations, in one or several processes."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from seqloom.statistical.phrase.features import PhraseLanguageModel, Vector
from seqloom.statistical.phrase.graph import SearchGraph
from seqloom.statistical.phrase.nbest import Derivation, best, features_of
from seqloom.statistical.phrase.options import OptionCollector, SourceSentence
from seqloom.statistical.phrase.stacks import StackDecoder, StackLimits
from seqloom.statistical.phrase.table import PhraseTable

_CHUNK = 4  # sentences per work unit

Task = TypeVar("Task")
Result = TypeVar("Result")


class Words(NamedTuple):
    """The words of a source sentence."""

    ids: Sequence[int]
    surfaces: Sequence[str]
    known: Sequence[int]  # ids of the same words in the target vocabulary, or UNK


class Decoder:
    """Search under given weights and limits; results for a sentence do not depend on other sentences."""

    def __init__(
        self,
        table: PhraseTable,
        language: PhraseLanguageModel,
        weights: Vector,
        limits: StackLimits,
        options: int,
    ) -> None:
        self.table, self.language, self.weights, self.limits = table, language, weights, limits
        self._options = OptionCollector(table, language, weights, options)
        self._stacks = StackDecoder(language, weights, limits)

    def read(self, words: Words) -> SourceSentence:
        """Return a sentence with its translation options."""
        return self._options.collect(words.ids, words.surfaces, words.known)

    def search(self, sentence: SourceSentence, *, keep: bool = False) -> SearchGraph:
        """Return the search graph of one sentence; with `keep`, including the contents of each stack."""
        return self._stacks.search(sentence, keep=keep)

    def nbest(self, words: Words, nbest: int) -> list[Derivation]:
        """Return the best derivations of one sentence."""
        return best(self.search(self.read(words)), nbest)

    def features(self, derivation: Derivation, length: int) -> Vector:
        """Return the features of a derivation of a source with `length` words."""
        return features_of(derivation, length, self.table, self.language)


def map_tasks(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """Yield the result of `work` for each task, in order, computed by `workers` processes.

    Workers are forks: they read the tables of this process without copying them. Without fork support, or with
    few tasks, everything runs in this process.
    """
    if workers <= 1 or len(tasks) <= _CHUNK or "fork" not in multiprocessing.get_all_start_methods():
        for task in tasks:
            with _no_collection():
                result = work(task)
            yield result
        return
    workers = min(workers, -(-len(tasks) // _CHUNK))
    with multiprocessing.get_context("fork").Pool(workers, _init_worker, (work,)) as pool:
        yield from pool.imap(_run_task, tasks, chunksize=_CHUNK)


_work: Callable[..., object] | None = None  # inherited by workers, so that the tables need not be pickled


def _init_worker(work: Callable[..., object]) -> None:
    global _work
    _work = work
    gc.disable()  # a collection would touch, and so copy, every inherited object


def _run_task(task: object) -> object:
    assert _work is not None
    return _work(task)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: a search creates many live objects without cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
