"""Options and results of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

from torch import Tensor

from seqloom.decode.config import SearchConfig, Stop
from seqloom.decode.ranking import Ranking
from seqloom.decode.rules import Rules
from seqloom.errors import unknown

_DEFAULTS = SearchConfig.model_validate({})


class DecodedSequence(NamedTuple):
    """Hypothesis that is completed or cut at the maximum length."""

    tokens: list[int]  # without the end of sentence
    log_probs: list[float]  # one per token, and one for the end of sentence if it was reached
    score: float  # see Ranking
    finished: bool
    attention: Tensor | None  # (tokens + end, S)


@dataclass(frozen=True)
class BeamOptions:
    """Options of one beam search: width, ranking, stop rule and output constraints."""

    beam: int
    ranking: Ranking = field(default_factory=Ranking)
    stop: Stop = _DEFAULTS.stop
    stop_after: int | None = _DEFAULTS.stop_after  # completed hypotheses of a group; None: as many as it keeps
    nbest: int = _DEFAULTS.nbest  # with stop=hopeless, the number of best hypotheses that must be certain
    groups: int = _DEFAULTS.groups  # beams that avoid each other's tokens (Vijayakumar et al. 2018)
    diversity: float = _DEFAULTS.diversity  # log P penalty per earlier group that continues with the token
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        if self.stop not in get_args(Stop):
            raise unknown("stop rule", self.stop, get_args(Stop))

    @property
    def width(self) -> int:
        """Number of hypotheses kept per group."""
        return self.beam // self.groups

    @property
    def needed(self) -> int:
        """Number of completed hypotheses of a group that makes cutting open ones unnecessary."""
        return min(self.nbest, self.width) if self.stop == "hopeless" else self.stop_after or self.width

    def satisfied(self, found: Sequence[DecodedSequence], open_total: float, length: int, longest: int) -> bool:
        """Return whether a group can stop, given the log P of its best open hypothesis, `open_total`.

        ahead:    `needed` hypotheses are completed, and the best scores at least as high as the best open one.
        count:    `needed` hypotheses are completed.
        hopeless: no continuation of an open one can still be among the `nbest` best.
        length:   never; only the maximum length ends the search.
        """
        if self.stop == "length" or not found:
            return False
        if self.stop == "hopeless":
            bound = self.ranking.bound(open_total, length, longest)
            ranked = sorted((one.score for one in found), reverse=True)
            return len(ranked) >= self.needed and ranked[self.needed - 1] >= bound
        if len(found) < self.needed:
            return False
        return self.stop == "count" or max(f.score for f in found) >= self.ranking.score(open_total, length)


def beam_options(search: SearchConfig, rules: Rules) -> BeamOptions:
    """Return the options of one beam search under these rules."""
    ranking = Ranking(search.length_norm, search.length_penalty, search.word_reward, search.coverage_penalty)
    return BeamOptions(
        beam=search.beam,
        ranking=ranking,
        stop=search.stop,
        stop_after=search.stop_after,
        nbest=search.nbest,
        groups=search.groups,
        diversity=search.diversity,
        rules=rules,
    )
