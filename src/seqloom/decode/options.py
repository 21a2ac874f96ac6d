"""What a search is asked for, and what it finds."""

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
    """A completed hypothesis, or one cut at the maximum length."""

    tokens: list[int]  # without the end of sentence
    log_probs: list[float]  # one per token and one for the end, if it was reached
    score: float  # what it is ranked by, see Ranking
    finished: bool
    attention: Tensor | None  # (tokens + end, S)


@dataclass(frozen=True)
class BeamOptions:
    """How wide to search, what to rank by, when to stop, and what an answer may say."""

    beam: int
    ranking: Ranking = field(default_factory=Ranking)
    stop: Stop = _DEFAULTS.stop
    wanted: int = _DEFAULTS.nbest  # how many of the best must be certain under stop=hopeless
    groups: int = (
        _DEFAULTS.groups
    )  # beams side by side that avoid each other's tokens (Vijayakumar et al. 2018)
    diversity: float = (
        _DEFAULTS.diversity
    )  # taken off log P for each earlier group that continues with the same token
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        if self.stop not in get_args(Stop):
            raise unknown("stop rule", self.stop, get_args(Stop))

    @property
    def width(self) -> int:
        """Hypotheses kept in a group."""
        return self.beam // self.groups

    @property
    def needed(self) -> int:
        """Completed hypotheses of a group that make cutting open ones unnecessary."""
        return min(self.wanted, self.width) if self.stop == "hopeless" else self.width

    def satisfied(self, found: Sequence[DecodedSequence], open_total: float, length: int, longest: int) -> bool:
        """Whether a group needs no more: what its best open hypothesis has so far no longer matters.

        ahead:    the group is full of completed ones, and the best scores at least what the best open one has.
        count:    the group is full of completed ones.
        hopeless: no open one can still come among the `wanted` best, whatever follows.
        length:   never; only the maximum length ends the search.
        """
        if self.stop == "length" or not found:
            return False
        if self.stop == "hopeless":
            bound = self.ranking.bound(open_total, length, longest)
            ranked = sorted((one.score for one in found), reverse=True)
            return len(ranked) >= self.needed and ranked[self.needed - 1] >= bound
        if len(found) < self.width:
            return False
        return self.stop == "count" or max(f.score for f in found) >= self.ranking.score(open_total, length)


def beam_options(search: SearchConfig, rules: Rules) -> BeamOptions:
    """The plan of these options."""
    ranking = Ranking(search.length_norm, search.length_penalty, search.word_reward, search.coverage_penalty)
    return BeamOptions(
        beam=search.beam,
        ranking=ranking,
        stop=search.stop,
        wanted=search.nbest,
        groups=search.groups,
        diversity=search.diversity,
        rules=rules,
    )
