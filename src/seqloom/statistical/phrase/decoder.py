"""From the words of sentences to their best derivations, by one process or several."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from seqloom.statistical.phrase.features import PhraseLanguageModel, Vector
from seqloom.statistical.phrase.graph import SearchGraph
from seqloom.statistical.phrase.nbest import Derivation, best, features_of
from seqloom.statistical.phrase.options import Options, SourceSentence
from seqloom.statistical.phrase.stacks import Limits, StackDecoder
from seqloom.statistical.phrase.table import PhraseTable

_CHUNK = 4  # sentences that a worker takes at a time

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Words(NamedTuple):
    """A sentence of the source."""

    ids: Sequence[int]
    surfaces: Sequence[str]
    known: Sequence[int]  # their ids in the target's vocabulary, or UNK


class Decoder:
    """The best derivations under given weights and limits; a sentence's depend on nothing but the sentence."""

    def __init__(
        self, table: PhraseTable, language: PhraseLanguageModel, weights: Vector, limits: Limits, options: int
    ) -> None:
        self.table, self.language, self.weights, self.limits = table, language, weights, limits
        self._options = Options(table, language, weights, options)
        self._stacks = StackDecoder(language, weights, limits)

    def read(self, words: Words) -> SourceSentence:
        """What can be done with the words of a sentence."""
        return self._options.of(words.ids, words.surfaces, words.known)

    def search(self, sentence: SourceSentence, *, keep: bool = False) -> SearchGraph:
        """The whole search of one sentence; with `keep` also what each stack held."""
        return self._stacks.search(sentence, keep=keep)

    def nbest(self, words: Words, nbest: int) -> list[Derivation]:
        """The best derivations of one sentence."""
        return best(self.search(self.read(words)), nbest)

    def features(self, derivation: Derivation, length: int) -> Vector:
        """The features of a derivation of so many source words."""
        return features_of(derivation, length, self.table, self.language)


def map_tasks(work: Callable[[Task], Answer], tasks: Sequence[Task], workers: int) -> Iterator[Answer]:
    """What `work` gives for each task, in their order, done by so many processes.

    They are forks: they read the tables of this process and copy nothing. Where there is no fork, or little to
    do, this process works alone.
    """
    if workers <= 1 or len(tasks) <= _CHUNK or "fork" not in multiprocessing.get_all_start_methods():
        for task in tasks:
            with _no_collection():
                answer = work(task)
            yield answer
        return
    workers = min(workers, -(-len(tasks) // _CHUNK))
    with multiprocessing.get_context("fork").Pool(workers, _begin, (work,)) as pool:
        yield from pool.imap(_run, tasks, chunksize=_CHUNK)


_work: Callable[..., object] | None = None  # of a worker, which inherits it: tables need not be sent


def _begin(work: Callable[..., object]) -> None:
    global _work
    _work = work
    gc.disable()  # a collection would touch, and so copy, every object that is inherited


def _run(task: object) -> object:
    assert _work is not None
    return _work(task)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Leaves the garbage alone: a search makes a hundred thousand objects, alive and without cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
