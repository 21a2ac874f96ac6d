"""Verdict on a translation that the model did not output: does the model or the search prefer another one?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from seqloom.decode.exact import Problem
from seqloom.decode.observer import report_step
from seqloom.decode.options import DecodedSequence
from seqloom.decode.pruned_model import PrunedModel, enough_to_rank
from seqloom.decode.reference import Decision, PartialTarget, may_follow, reference_beam_search
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.labels import END
from seqloom.inspect.searchtree import problem_of
from seqloom.inspect.translation import rounded
from seqloom.inspect.viewed_run import ViewedRun, check_length
from seqloom.settings import Settings
from seqloom.types import BOS, EOS, UNK, Batch, Request, Step, StepModel, Tree

VERSION = 1  # of the document
_RANKED = 200  # ranks in the beam up to this one are exact; later ones are left out
_ROUNDING = 1e-4  # scores closer than this count as equal: batches round differently


class VerdictOptions(Settings):
    """A text, a translation of it, and a beam."""

    text: str = Field("", description="source text")
    target: str = Field(description="translation to judge")
    beam: int | None = Field(None, ge=1, le=100, description="beam size; None = that of the run")
    largest: int = Field(30, ge=1, le=100, description="largest beam size to try")
    checkpoint: str | None = Field(None, description="name of the checkpoint; None = the best one")


def verdict(viewed: ViewedRun, options: VerdictOptions) -> dict[str, Any]:
    """Return the score of a given translation, where the search drops it, and the smallest beam that keeps it.

    The verdict is `model` if the output of the search scores higher than the given translation, `search` if it
    scores lower, `equal`, `same` (it is the output), or `rules` if the search options exclude it.
    """
    translator = viewed.torch_translator(options.checkpoint)
    check_length(translator, options.text)
    if not options.text.strip() or not options.target.strip():
        raise SeqloomError("The text or the translation is empty.", "give both")
    if translator.search.groups > 1:
        raise SeqloomError("The verdict is about a single beam.", "remove search.groups and search.diversity")
    if options.beam is not None:
        translator = translator.with_search({"beam": options.beam, "nbest": 1})
    problem = problem_of(translator, Request(options.text), translator.search)
    return _Judge(translator, problem, translator.tokenizers.target.encode(options.target)).document(options)


class _Judge:
    """A target and the searches that are compared with it; all share the steps of the model."""

    def __init__(self, translator: TorchTranslator, problem: Problem, target: Sequence[int]) -> None:
        self._translator, self._problem = translator, problem
        self._model = _RememberedSteps(problem.model)
        self._ids = (*target, EOS)
        self._source_length = int(problem.sentence.source_lengths[0])

    @torch.inference_mode()
    def document(self, options: VerdictOptions) -> dict[str, Any]:
        """Return the document."""
        plan, pieces = self._problem.plan, self._translator.tokenizers.target
        forced, ranks = self._forced()
        score = forced.score(plan.ranking, self._source_length)
        trace = self._followed(plan.beam)
        best = trace.output()
        text = pieces.decode(best.tokens)
        tokens = [*pieces.pieces(list(self._ids[:-1])), END]
        if tuple(best.tokens) == self._ids[:-1] and best.finished:
            answer = "same"
        elif self._is_excluded():
            answer = "rules"
        elif abs(score - best.score) < _ROUNDING:
            answer = "equal"
        else:
            answer = "search" if score > best.score or not best.finished else "model"
        return {
            "view": "verdict",
            "version": VERSION,
            "source": options.text,
            "target": options.target,
            "tokens": tokens,
            "log_prob": rounded(forced.total),
            "score": rounded(score),
            "unknown": self._ids.count(UNK),
            "beam": plan.beam,
            "output": {
                "text": text,
                "log_prob": rounded(sum(best.log_probs)),
                "score": rounded(best.score),
                "finished": best.finished,
            },
            "steps": [
                {
                    "token": token,
                    "log_prob": rounded(forced.log_probs[i]),
                    "rank": ranks[i],
                    **trace.step(i + 1, forced),
                }
                for i, token in enumerate(tokens)
            ],
            "lost_at": trace.lost_at(),
            "reason": trace.reason(),
            "smallest_beam": None if answer == "rules" else self._smallest_beam(options.largest),
            "largest_tried": options.largest,
            "verdict": answer,
        }

    def _forced(self) -> tuple[PartialTarget, list[int]]:
        """Return the target as the search would hold it, and the rank of each token at its place."""
        memory, state = self._model.start(self._problem.sentence)
        partial, ranks = PartialTarget((), (), (), state), []
        for last, token in zip((BOS, *self._ids), self._ids, strict=False):
            step = self._model.step(memory, partial.state, self._problem.sentence.source.new_tensor([last]))
            row, alignment = step.log_probs[0], step.alignment()
            ranks.append(int((row > row[token]).sum()) + 1)
            partial = PartialTarget(
                (*partial.tokens, token),
                (*partial.log_probs, float(row[token])),
                (*partial.attention, *(() if alignment is None else (alignment[0],))),
                step.state,
            )
        return partial, ranks

    def _is_excluded(self) -> bool:
        """Return whether no search under these rules can return the target."""
        rules = self._problem.plan.rules
        allowed = (may_follow(token, self._ids[:i], rules) for i, token in enumerate(self._ids))
        return len(self._ids) > self._problem.max_length or not all(allowed)

    def _smallest_beam(self, largest: int) -> int | None:
        """Return the smallest beam whose search completes the target. A larger beam may lose it again."""
        for beam in range(1, largest + 1):
            report_step(list)  # the worker cancels obsolete documents here
            if self._followed(beam, ends_when_lost=True).is_completed():
                return beam
        return None

    def _followed(self, beam: int, *, ends_when_lost: bool = False) -> _Trace:
        """Search with a beam, and record what happens to the target."""
        plan = replace(self._problem.plan, beam=beam, nbest=1)
        ranks = 2 * beam if ends_when_lost else max(_RANKED, 2 * beam)
        most = enough_to_rank(plan, ranks, self._problem.max_length)
        prefixes = [token for prefix in plan.rules.prefixes for token in prefix]
        model = PrunedModel(self._model, most=most, always=[*prefixes, *self._ids])
        trace = _Trace(self._ids, ends_when_lost)
        try:
            found = reference_beam_search(
                model,
                self._problem.sentence,
                plan,
                max_length=self._problem.max_length,
                watch=trace.watch,
            )
        except _TargetLost:
            return trace
        if not found:
            raise SeqloomError(
                "No output satisfies the model and the search options.",
                "relax search.forbid, search.no_repeat or search.min_length",
            )
        trace.found = found[0]
        return trace


class _TargetLost(Exception):
    """The target has left the beam."""


@dataclass
class _Trace:
    """Course of a search, as seen from a target."""

    ids: tuple[int, ...]  # EOS included
    ends_when_lost: bool
    found: DecodedSequence | None = None
    decisions: dict[int, Decision] = field(default_factory=dict)  # on the target, by length
    last_kept: dict[int, float] = field(default_factory=dict)  # log P of the worst open hypothesis, by length

    def watch(self, seen: Decision) -> None:
        """Record a decision."""
        if seen.fate == "kept":
            self.last_kept[seen.length] = min(seen.partial.total, self.last_kept.get(seen.length, math.inf))
        if seen.partial.tokens == self.ids[: seen.length]:
            self.decisions[seen.length] = seen
            if self.ends_when_lost and (seen.fate == "pruned" or seen.fate == "completed"):
                raise _TargetLost

    def is_completed(self) -> bool:
        """Return whether the whole target was completed."""
        last = self.decisions.get(len(self.ids))
        return last is not None and last.fate == "completed"

    def lost_at(self) -> int | None:
        """Return the length at which the target left the beam."""
        return None if self.is_completed() else max(self.decisions, default=0) + (self.reason() == "stopped")

    def reason(self) -> str | None:
        """Return why the target left the beam: pruned, or the search stopped before."""
        if self.is_completed():
            return None
        last = self.decisions.get(max(self.decisions, default=0))
        return "pruned" if last is not None and last.fate == "pruned" else "stopped"

    def output(self) -> DecodedSequence:
        """Return the output of the search."""
        assert self.found is not None, "a search that was not interrupted has an output"
        return self.found

    def step(self, length: int, forced: PartialTarget) -> dict[str, Any]:
        """Return what the search did with the first tokens of the target."""
        seen, kept = self.decisions.get(length), self.last_kept.get(length)
        total = sum(forced.log_probs[:length])
        in_beam = None if seen is None or seen.rank >= _RANKED else seen.rank + 1
        return {
            "total": rounded(total),
            "fate": "absent" if seen is None else seen.fate,
            "rank_in_beam": in_beam,
            "last_kept": None if kept is None else rounded(kept),
        }


class _RememberedSteps(StepModel):
    """Model that computes the step after the same tokens once, for searches of one sentence."""

    def __init__(self, model: StepModel) -> None:
        self._model = model
        self._start: tuple[Tree, Tree] | None = None
        self._steps: dict[tuple[int, ...], Step] = {}

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        if self._start is None:
            self._start = self._model.start(batch)
        return self._start[0], ((), self._start[1])

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        before, inner = state
        tokens = (*before, int(last))
        if tokens not in self._steps:
            found = self._model.step(memory, inner, last)
            self._steps[tokens] = found._replace(state=(tokens, found.state))
        return self._steps[tokens]

    def max_target_length(self, source_length: int) -> int | None:
        return self._model.max_target_length(source_length)
