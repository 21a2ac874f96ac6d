"""Translation of raw text with CTranslate2, with the same outputs as seqloom's own search wherever possible.

The same in both: greedy search; the prefixes kept in a beam; the scores log P / length^α, where the length
includes EOS; and hypotheses truncated at the maximum length of their own line, ranked after all completed ones.

CTranslate2 finishes a sentence when `beam` hypotheses are complete, which is search.stop=count. With other stop
rules, outputs may differ. Without a length penalty all other rules give the same best output: a longer
hypothesis is never more probable, so CTranslate2 can wait until the most probable hypothesis is complete.

Our search never generates PAD and BOS, but they take part in the normalisation of the other tokens. CTranslate2
can remove them only before it normalises, which changes the scores. So PAD and BOS end a hypothesis there: they
take no slot in the beam, and such a hypothesis either is among the `beam` best and shows up in the results, or
scores less than all of them and changes nothing. A trained model rarely generates them; lines where they show
up are translated by torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

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

_MAX_LINES = 64  # per batch: a larger batch does not speed up a worker, and its lengths differ more
_NO_PENALTY = 1e-9  # length^this is 1, but unlike with 0, CTranslate2 stops when `beam` are completed


class _Constraints(NamedTuple):
    """Constraints for decoding lines again whose first result differs from that of our search."""

    forbid: bool = False  # remove PAD and BOS, which were generated, before normalising
    limit: int | None = None  # maximum length of these lines, if the maximum of their batch was too large


class _Decoded(NamedTuple):
    tokens: list[int]  # without the end of sentence
    score: float  # NaN: unknown, because the hypothesis was truncated or scores were not requested
    finished: bool

    def truncated(self, limit: int) -> _Decoded:
        """Return the first tokens: the output of a greedy search with this limit."""
        return self if self.length <= limit else _Decoded(self.tokens[:limit], math.nan, finished=False)

    @property
    def length(self) -> int:
        """Number of decoding steps, including EOS."""
        return len(self.tokens) + self.finished

    @property
    def is_text(self) -> bool:
        """Whether our search can generate all its tokens."""
        return not {PAD, BOS, EOS} & set(self.tokens)


def depends_on_stop(search: SearchConfig) -> bool:
    """Return whether another stop rule than search.stop=count changes the output.

    With a beam of 1, `ahead` also stops at the first completed hypothesis, because the open one has a lower
    log P and the same length. `hopeless` and `length` continue with the second best token.
    """
    if search.nbest == 1 and not search.length_penalty:
        return False  # log P only falls: no longer hypothesis can win
    return search.stop not in (("count", "ahead") if search.beam == 1 else ("count",))


def length_penalty(search: SearchConfig) -> float:
    """Return the length penalty with which CTranslate2 ranks and stops like our search with these options."""
    return search.length_penalty or (_NO_PENALTY if search.stop == "count" else 0.0)


class CTranslate2Translator(Translator):
    """Translator with the results of TorchTranslator, using the CTranslate2 model in a folder.

    Batches are distributed over single-threaded workers, one per processor: threads that share a batch wait for
    each other at every layer, workers never do. `positions` is the maximum sequence length; longer lines, and
    beams wider than the vocabulary allows, are translated by the translator that `fallback` returns. Without
    `scores`, hypotheses have neither tokens nor token probabilities, which saves a pass; those of a greedy
    search have no score (NaN) either, which saves normalising every distribution.
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
        self._max_positions = math.inf if positions is None else positions
        self.threads = checked_threads(threads)
        self._fallback = fallback
        self._source, self._target = read_names(folder)
        self._ids = {name: id for id, name in enumerate(self._target)}
        # Loaded on first use, once for this translator and all that `with_search` returns.
        self._load_workers = cache(partial(_workers, folder, device, self.threads))

    def with_scores(self, scores: bool) -> Self:
        """Return a translator on the same loaded model that computes token scores, or does not."""
        changed = copy(self)
        changed.scores = scores
        return changed

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.CAPABILITIES if self.scores else self.CAPABILITIES - {"token_scores"}

    @classmethod
    def unsupported(cls, search: SearchConfig) -> list[str]:
        """Return the options that would change the output; for some searches the stop rule does not."""
        ignored = set() if depends_on_stop(search) else {"stop"}
        return [name for name in super().unsupported(search) if name not in ignored]

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        sources = [self.tokenizers.source.encode(request.source) for request in requests]
        on_progress(sum(not ids for ids in sources))
        decoded, undecoded = self._decode(sources, search, on_progress)
        outputs: Outputs = [[NOTHING] for _ in requests]
        for i, hypotheses in self._hypotheses(sources, decoded, search):
            outputs[i] = hypotheses
        if undecoded:
            longest = max(len(sources[i]) for i in undecoded)
            rest = self._translate_with_fallback([requests[i] for i in undecoded], longest, search)
            for i, hypotheses in zip(undecoded, rest, strict=True):
                outputs[i] = hypotheses
            on_progress(len(undecoded))
        return outputs

    def score(self, pairs: Sequence[Pair], *, on_progress: Progress | None = None) -> list[SequenceScore]:
        """Return log p of every target token, including EOS."""
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
    ) -> tuple[dict[int, list[_Decoded]], list[int]]:
        """Return the hypotheses of every non-empty line, best first, and the lines that need the fallback."""
        limits = [search.max_length(len(ids) + 1) for ids in sources]
        # With fewer tokens than candidates per step, PAD and BOS would have to be chosen.
        narrow = 2 * search.beam > len(self._target) - 2
        undecoded = [
            i for i, ids in enumerate(sources) if ids and (narrow or len(ids) + 1 > self._max_positions)
        ]
        decoded: dict[int, list[_Decoded]] = {}
        todo = {_Constraints(): sorted({i for i, ids in enumerate(sources) if ids} - set(undecoded))}
        while todo:
            constraints, waiting = todo.popitem()
            for i, hypotheses in self._run(sources, waiting, limits, constraints, search):
                if search.beam == 1 and limits[i] < self._max_positions:
                    hypotheses = [one.truncated(limits[i]) for one in hypotheses]
                if self._needs_fallback(hypotheses, limits[i], search.beam):
                    undecoded.append(i)
                elif (retry := _retry(constraints, hypotheses, limits[i], search.beam)) is not None:
                    todo.setdefault(retry, []).append(i)
                else:
                    decoded[i] = hypotheses[: search.nbest]
                    advance(1)
        return decoded, undecoded

    def _needs_fallback(self, decoded: list[_Decoded], limit: int, beam: int) -> bool:
        """Return whether a line needs our own search. Greedy search does not depend on the normalisation."""
        if not all(one.is_text for one in decoded):
            return beam > 1 and self._fallback is not None
        return limit >= self._max_positions and not all(one.finished for one in decoded)

    def _run(
        self,
        sources: list[list[int]],
        lines: list[int],
        limits: list[int],
        constraints: _Constraints,
        search: SearchConfig,
    ) -> Iterator[tuple[int, list[_Decoded]]]:
        """Decode the lines; every batch is a job for one worker."""
        jobs = []
        for group in self._groups([len(sources[i]) for i in lines], search):
            batch = [lines[index] for index in group]
            longest = max(limits[i] for i in batch) if constraints.limit is None else constraints.limit
            jobs.append((batch, self._submit([sources[i] for i in batch], longest, constraints, search)))
        for batch, results in jobs:
            for i, result in zip(batch, results, strict=True):
                yield i, self._read(result.result())

    def _submit(
        self, sources: list[list[int]], longest: int, constraints: _Constraints, search: SearchConfig
    ) -> Any:
        # At the maximum length, all open hypotheses join up to beam - 1 completed ones. Doubling the patience
        # does not prolong a search that has reached it, and makes it return all of them.
        double = 2 if constraints.limit is not None and search.beam > 1 else 1
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
            max_decoding_length=int(min(longest, self._max_positions)),
            return_end_token=True,  # which also counts it in the length
            return_scores=self.scores or search.beam > 1,
            suppress_sequences=[[name] for name in special] if constraints.forbid else None,
        )

    def _read(self, result: Any) -> list[_Decoded]:
        decoded = []
        for names, score in zip(result.hypotheses, result.scores or [math.nan], strict=True):
            ids = [self._ids[name] for name in names]
            finished = ids[-1:] == [EOS]
            decoded.append(_Decoded(ids[:-1] if finished else ids, score, finished))
        return sorted(decoded, key=lambda one: (one.finished, one.score), reverse=True)

    def _groups(self, lengths: list[int], search: SearchConfig) -> Iterator[list[int]]:
        """Yield batches of similar length, small enough for little padding and for one per worker at least."""
        max_lines = min(_MAX_LINES, -(-len(lengths) // self.threads))
        for group in batches_by_length(lengths, batch_tokens=search.batch_tokens, rows=search.beam):
            size = -(-len(group) // -(-len(group) // max_lines))  # equal parts, so that none is small
            yield from (group[first : first + size] for first in range(0, len(group), size))

    def _hypotheses(
        self, sources: list[list[int]], decoded: dict[int, list[_Decoded]], search: SearchConfig
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        flat = [(i, one) for i, hypotheses in decoded.items() for one in hypotheses]
        values: list[list[float]] = [[] for _ in flat]
        if self.scores:
            values = self._log_probs([sources[i] for i, _ in flat], [one.tokens for _, one in flat])
        rows = iter(values)
        for i, hypotheses in decoded.items():
            yield i, [self._hypothesis(sources[i], one, next(rows), search) for one in hypotheses]

    def _hypothesis(
        self, source: list[int], decoded: _Decoded, log_probs: list[float], search: SearchConfig
    ) -> Hypothesis:
        values = log_probs[: decoded.length]
        divisor = decoded.length**search.length_penalty
        log_prob = math.fsum(values) if values else decoded.score * divisor
        source_side, target_side = self.tokenizers.source, self.tokenizers.target
        return Hypothesis(
            text=target_side.decode(decoded.tokens),
            score=log_prob / divisor,
            log_prob=log_prob,
            tokens=tuple(target_side.pieces(decoded.tokens)) if self.scores else (),
            token_log_probs=tuple(values) if self.scores else (),
            source_tokens=tuple(source_side.pieces(source)) if self.scores else (),
            finished=decoded.finished,
        )

    def _log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """Return log p of every target token and of the EOS after them."""
        values: list[list[float]] = [[] for _ in targets]
        if not targets:
            return values
        widths = [max(map(len, both)) + 1 for both in zip(sources, targets, strict=True)]
        if max(widths) > self._max_positions:
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

    def _translate_with_fallback(self, requests: list[Request], longest: int, search: SearchConfig) -> Outputs:
        """Translate lines that CTranslate2 cannot with our own search."""
        if self._fallback is not None:
            return self._fallback().translate(requests, search)
        if max(longest + 1, search.max_length(longest + 1)) >= self._max_positions:
            raise self._too_long(longest)
        raise SeqloomError(
            f"A beam of {search.beam} is too wide for the {len(self._target)} tokens of {self.folder}.",
            "use a smaller --beam",
        )

    def _too_long(self, tokens: int) -> SeqloomError:
        return SeqloomError(
            f"A line of {tokens} tokens, or its translation, is longer than the {self._max_positions} "
            f"positions of the CTranslate2 model in {self.folder}.",
            self.alternative,
        )


def _workers(folder: Path, device: str, threads: int) -> Any:
    """Load the model with this number of single-threaded workers."""
    try:
        return library().Translator(str(folder), device=device, inter_threads=threads, intra_threads=1)
    except (RuntimeError, ValueError) as error:
        raise SeqloomError(
            f"The CTranslate2 model in {folder} cannot be loaded: {str(error).splitlines()[0]}.",
            "export the run again",
        ) from error


def _retry(constraints: _Constraints, decoded: list[_Decoded], limit: int, beam: int) -> _Constraints | None:
    """Return the constraints for decoding again if our search would have a different result, else None."""
    if not constraints.forbid and not all(one.is_text for one in decoded):
        return constraints._replace(forbid=True)
    # The search of a sentence ends at the step where its last hypothesis ends, which is among those returned.
    too_long = max(one.length for one in decoded) > limit
    truncated = beam > 1 and not all(one.finished for one in decoded)
    return constraints._replace(limit=limit) if constraints.limit is None and (too_long or truncated) else None
