"""Raw text in, raw text out by CTranslate2, with the answers of our own search wherever that is possible.

What is the same: greedy search; of a beam the prefixes that are kept, the scores log P / length^α with the end
counted in the length, and hypotheses cut at the maximum length of their own line, behind all completed ones.

It is done with a sentence when `beam` hypotheses are completed: our search.stop=count. By other rules answers
may differ. Without a length penalty the other rules all give the same best answer: a longer hypothesis is
never more probable, and then CTranslate2 can wait until the most probable one of all ends.

Our search never generates PAD and BOS, but their probability counts in that of the other tokens. CTranslate2
can only remove both before it normalises, which changes the scores. So PAD and BOS end a hypothesis there: they
take no place in the beam, and one among the `beam` best shows up in the results, or it scores less than all of
them and changes nothing. A trained model never gets that far; lines where they show up go to torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from seqloom.decode.config import SearchConfig
from seqloom.decode.pipeline import Progress, batches_by_length
from seqloom.decode.scoring import Pair, SequenceScore
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import NOTHING, Capability, Outputs, Translator
from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2.convert import library, read_names
from seqloom.system import checked_threads
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, UNK, Hypothesis, Request

_MOST_LINES = 64  # in a batch: beyond that a worker gains nothing, and lengths differ more
_NO_PENALTY = 1e-9  # length^this is 1, but unlike with 0, CTranslate2 stops when `beam` are completed


class _Way(NamedTuple):
    """How lines are decoded that did not come out as our search would have them."""

    forbid: bool = False  # PAD and BOS, which were found, are removed before normalising
    limit: int | None = None  # their own maximum length, where the longest of their batch was too much


class _Found(NamedTuple):
    tokens: list[int]  # without the end of sentence
    score: float  # NaN: not known, because it was cut or nobody asked
    finished: bool

    def cut(self, limit: int) -> _Found:
        """Its first tokens: of a greedy search, what it would have said with that limit."""
        return self if self.length <= limit else _Found(self.tokens[:limit], math.nan, finished=False)

    @property
    def length(self) -> int:
        """Steps that it took, the end included."""
        return len(self.tokens) + self.finished

    @property
    def is_text(self) -> bool:
        """Whether all its tokens are ones that our search generates."""
        return not {PAD, BOS, EOS} & set(self.tokens)


def length_penalty(search: SearchConfig) -> float:
    """Return the length penalty with which CTranslate2 ranks and stops as such a search does."""
    return search.length_penalty or (_NO_PENALTY if search.stop == "count" else 0.0)


class CTranslate2Translator(Translator):
    """Translates as TorchTranslator does, by the CTranslate2 model in a folder.

    Batches are shared out among as many workers of one thread as there are processors: threads that work on one
    batch wait for each other at every layer, workers never do. `positions` is how long a sequence may be; lines
    that are longer, and beams wider than the vocabulary allows, are left to the translator that `fallback`
    makes. Without `scores` answers have neither tokens nor their probabilities, which saves a pass; those of a
    greedy search have no score (NaN) either, which saves the normalising of every distribution.
    """

    engine = "ctranslate2"
    description = "The engine ctranslate2"
    CAPABILITIES: ClassVar[frozenset[Capability]] = frozenset({"nbest", "token_scores"})
    search_options = frozenset(
        {"beam", "nbest", "length_penalty", "longest", "max_length_factor", "max_length_extra", "batch_tokens"}
    )

    def __init__(
        self,
        folder: Path,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        positions: int | None,
        threads: int | None = None,
        device: str = "cpu",
        scores: bool = True,
        fallback: Callable[[], TorchTranslator] | None = None,
        length_ratio: float | None = None,
        alternative: str = "use the engine torch, e.g. --engine torch",
    ) -> None:
        super().__init__(search, length_ratio=length_ratio)
        self.alternative = alternative
        self.folder, self.tokenizers = folder, tokenizers
        self.device, self.scores = device, scores
        self._room = math.inf if positions is None else positions
        self.threads = checked_threads(threads)
        self._fallback = fallback
        self._source, self._target = read_names(folder)
        self._ids = {name: id for id, name in enumerate(self._target)}
        # Loaded when it is first needed, once for this translator and all that `with_search` returns.
        self._load_workers = cache(partial(_workers, folder, device, self.threads))

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.CAPABILITIES if self.scores else self.CAPABILITIES - {"token_scores"}

    @classmethod
    def unsupported(cls, search: SearchConfig) -> list[str]:
        """Return the options that would change the output; the stop rule does not matter to every search."""
        any_stop = search.beam == 1 or (search.length_penalty == 0 and search.nbest == 1)
        return [name for name in super().unsupported(search) if not (name == "stop" and any_stop)]

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        sources = [self.tokenizers.source.encode(request.source) for request in requests]
        on_progress(sum(not ids for ids in sources))
        found, left = self._decode(sources, search, on_progress)
        outputs: Outputs = [[NOTHING] for _ in requests]
        for i, hypotheses in self._hypotheses(sources, found, search):
            outputs[i] = hypotheses
        if left:
            better = self._leave([requests[i] for i in left], max(len(sources[i]) for i in left), search)
            for i, hypotheses in zip(left, better, strict=True):
                outputs[i] = hypotheses
            on_progress(len(left))
        return outputs

    def score(self, pairs: Sequence[Pair], *, on_progress: Progress | None = None) -> list[SequenceScore]:
        """log p of every token of the targets and of their ends."""
        sources = [self.tokenizers.source.encode(source) for source, _ in pairs]
        targets = [self.tokenizers.target.encode(target) for _, target in pairs]
        values = self._log_probs(sources, targets)
        if on_progress:
            on_progress(len(pairs))
        return [
            SequenceScore(tuple(self.tokenizers.target.pieces(ids)), tuple(row), ids.count(UNK))
            for ids, row in zip(targets, values, strict=True)
        ]

    def _decode(
        self, sources: list[list[int]], search: SearchConfig, advance: Callable[[int], None]
    ) -> tuple[dict[int, list[_Found]], list[int]]:
        """The hypotheses of every line that is not empty, best first, and the lines that do not fit."""
        limits = [search.max_length(len(ids) + 1) for ids in sources]
        # With fewer tokens than candidates per step there would be no choice but PAD and BOS.
        narrow = 2 * search.beam > len(self._target) - 2
        left = [i for i, ids in enumerate(sources) if ids and (narrow or len(ids) + 1 > self._room)]
        found: dict[int, list[_Found]] = {}
        todo = {_Way(): sorted({i for i, ids in enumerate(sources) if ids} - set(left))}
        while todo:
            way, waiting = todo.popitem()
            for i, hypotheses in self._run(sources, waiting, limits, way, search):
                if search.beam == 1 and limits[i] < self._room:
                    hypotheses = [one.cut(limits[i]) for one in hypotheses]
                if self._is_left(hypotheses, limits[i], search.beam):
                    left.append(i)
                elif (other := _other_way(way, hypotheses, limits[i], search.beam)) is not None:
                    todo.setdefault(other, []).append(i)
                else:
                    found[i] = hypotheses[: search.nbest]
                    advance(1)
        return found, left

    def _is_left(self, found: list[_Found], limit: int, beam: int) -> bool:
        """Return whether a line is left to our own search. Greedy search never depends on the normalising."""
        if not all(one.is_text for one in found):
            return beam > 1 and self._fallback is not None
        return limit >= self._room and not all(one.finished for one in found)

    def _run(
        self, sources: list[list[int]], lines: list[int], limits: list[int], way: _Way, search: SearchConfig
    ) -> Iterator[tuple[int, list[_Found]]]:
        """Decodes the lines; every batch is a job for one worker."""
        jobs = []
        for group in self._groups([len(sources[i]) for i in lines], search):
            batch = [lines[place] for place in group]
            longest = max(limits[i] for i in batch) if way.limit is None else way.limit
            jobs.append((batch, self._submit([sources[i] for i in batch], longest, way, search)))
        for batch, results in jobs:
            for i, result in zip(batch, results, strict=True):
                yield i, self._read(result.result())

    def _submit(self, sources: list[list[int]], longest: int, way: _Way, search: SearchConfig) -> Any:
        # At the maximum length all open hypotheses join up to beam - 1 completed ones: double patience does
        # not make a search that came so far longer, and lets it return every one of them.
        double = 2 if way.limit is not None and search.beam > 1 else 1
        special = [self._target[PAD], self._target[BOS]]
        return self._load_workers().translate_batch(
            [[self._source[id] for id in ids] for ids in sources],
            asynchronous=True,
            beam_size=search.beam,
            num_hypotheses=double * search.beam,
            patience=double,
            length_penalty=length_penalty(search),
            end_token=[self._target[EOS], *special],
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=int(min(longest, self._room)),
            return_end_token=True,  # and so count it in the length
            return_scores=self.scores or search.beam > 1,
            suppress_sequences=[[name] for name in special] if way.forbid else None,
        )

    def _read(self, result: Any) -> list[_Found]:
        found = []
        for names, score in zip(result.hypotheses, result.scores or [math.nan], strict=True):
            ids = [self._ids[name] for name in names]
            finished = ids[-1:] == [EOS]
            found.append(_Found(ids[:-1] if finished else ids, score, finished))
        return sorted(found, key=lambda one: (one.finished, one.score), reverse=True)

    def _groups(self, lengths: list[int], search: SearchConfig) -> Iterator[list[int]]:
        """Batches of like lengths, small enough that padding costs little, and one for each worker at least."""
        most = min(_MOST_LINES, -(-len(lengths) // self.threads))
        for group in batches_by_length(lengths, batch_tokens=search.batch_tokens, rows=search.beam):
            share = -(-len(group) // -(-len(group) // most))  # as many in each part, so that none is small
            yield from (group[first : first + share] for first in range(0, len(group), share))

    def _hypotheses(
        self, sources: list[list[int]], found: dict[int, list[_Found]], search: SearchConfig
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        flat = [(i, one) for i, hypotheses in found.items() for one in hypotheses]
        values: list[list[float]] = [[] for _ in flat]
        if self.scores:
            values = self._log_probs([sources[i] for i, _ in flat], [one.tokens for _, one in flat])
        rows = iter(values)
        for i, hypotheses in found.items():
            yield i, [self._hypothesis(sources[i], one, next(rows), search) for one in hypotheses]

    def _hypothesis(
        self, source: list[int], found: _Found, log_probs: list[float], search: SearchConfig
    ) -> Hypothesis:
        values = log_probs[: found.length]
        divisor = found.length**search.length_penalty
        log_prob = math.fsum(values) if values else found.score * divisor
        source_side, target_side = self.tokenizers.source, self.tokenizers.target
        return Hypothesis(
            text=target_side.decode(found.tokens),
            score=log_prob / divisor,
            log_prob=log_prob,
            tokens=tuple(target_side.pieces(found.tokens)) if self.scores else (),
            token_log_probs=tuple(values) if self.scores else (),
            source_tokens=tuple(source_side.pieces(source)) if self.scores else (),
            finished=found.finished,
        )

    def _log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """log p of every target token and of the end behind them."""
        values: list[list[float]] = [[] for _ in targets]
        if not targets:
            return values
        widths = [max(map(len, both)) + 1 for both in zip(sources, targets, strict=True)]
        if max(widths) > self._room:
            raise self._too_long(max(widths))
        jobs = []
        for group in self._groups(widths, self.search.model_copy(update={"beam": 1})):
            inputs = [[self._source[id] for id in sources[i]] for i in group]
            outputs = [[self._target[id] for id in targets[i]] for i in group]
            results = self._load_workers().score_batch(inputs, outputs, max_input_length=0, asynchronous=True)
            jobs.append((group, results))
        for group, results in jobs:
            for i, result in zip(group, results, strict=True):
                values[i] = result.result().log_probs
        return values

    def _leave(self, requests: list[Request], longest: int, search: SearchConfig) -> Outputs:
        """What our own search says of lines that do not fit."""
        if self._fallback is not None:
            return self._fallback().translate(requests, search)
        if max(longest + 1, search.max_length(longest + 1)) >= self._room:
            raise self._too_long(longest)
        raise SeqloomError(
            f"A beam of {search.beam} is too wide for the {len(self._target)} tokens of {self.folder}.",
            "give a smaller --beam",
        )

    def _too_long(self, tokens: int) -> SeqloomError:
        return SeqloomError(
            f"A line of {tokens} tokens, or its translation, is longer than the {self._room} positions of the "
            f"CTranslate2 model in {self.folder}.",
            self.alternative,
        )


def _workers(folder: Path, device: str, threads: int) -> Any:
    """Load the model for this number of workers of one thread each."""
    try:
        return library().Translator(str(folder), device=device, inter_threads=threads, intra_threads=1)
    except (RuntimeError, ValueError) as error:
        raise SeqloomError(
            f"The CTranslate2 model in {folder} cannot be loaded: {str(error).splitlines()[0]}.",
            "export the run again",
        ) from error


def _other_way(way: _Way, found: list[_Found], limit: int, beam: int) -> _Way | None:
    """How to decode again if this is not what our search would have come to."""
    if not way.forbid and not all(one.is_text for one in found):
        return way._replace(forbid=True)
    # A sentence ends with the step at which its last hypothesis ended, and that one is among those returned.
    too_long = max(one.length for one in found) > limit
    cut = beam > 1 and not all(one.finished for one in found)
    return way._replace(limit=limit) if way.limit is None and (too_long or cut) else None
