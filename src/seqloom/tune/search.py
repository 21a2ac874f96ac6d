"""Search options measured on validation data: beam size, length norm and length penalty.

Beam search expands hypotheses by their log-probability. The length norm and penalty only rank the hypotheses
that it ends with, unless the stop rule depends on the ranking. So one search per beam size is sufficient: its
hypotheses are ranked again for every norm and penalty, with the same outputs as a new search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from seqloom.data.testset import TestSet
from seqloom.decode.config import Norm, SearchConfig
from seqloom.decode.ranking import Ranking
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import requests_for
from seqloom.types import Hypothesis, Request

BEAMS = (1, 2, 3, 5, 8)
NORMS: tuple[Norm, ...] = ("length", "gnmt")
PENALTIES = (0.0, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6)

_WARM_UP = 8  # lines decoded before the first measurement of speed

Progress = Callable[[int], None]


class Setting(NamedTuple):
    """Values of the search options that are tuned."""

    beam: int
    length_norm: Norm
    length_penalty: float

    def options(self) -> dict[str, Any]:
        """Return the options by name."""
        return self._asdict()


def setting_of(search: SearchConfig) -> Setting:
    """Return the values of the tuned options."""
    return Setting(search.beam, search.length_norm, search.length_penalty)


@dataclass(frozen=True)
class Decoded:
    """Outputs of a setting, one per line, and the speed of its search."""

    setting: Setting
    texts: tuple[str, ...]
    sentences_per_second: float


def grid(
    search: SearchConfig,
    *,
    beams: Sequence[int] = (),
    norms: Sequence[Norm] = NORMS,
    penalties: Sequence[float] = PENALTIES,
) -> list[Setting]:
    """Return the settings to compare, and that of the run; settings with equal outputs appear once.

    Without `beams`, the sizes are those of `BEAMS` that the other options of the run allow.
    """
    now = setting_of(search)
    sizes = beams or [beam for beam in BEAMS if beam >= search.nbest and beam % search.groups == 0]
    every = [Setting(beam, norm, penalty) for beam in sizes for norm in norms for penalty in penalties]
    greedy = [now._replace(beam=1)] if 1 in sizes else []  # with the norm that the run has for wider beams
    distinct: dict[tuple[int, Norm, float], Setting] = {}
    for setting in (now, *greedy, *every):
        distinct.setdefault(_outputs_key(setting, search), setting)
    return sorted(distinct.values())


def _outputs_key(setting: Setting, search: SearchConfig) -> tuple[int, Norm, float]:
    """Return the same key for settings whose outputs are equal by definition."""
    is_one = search.stop == "count" and (search.stop_after or 1) == 1
    if setting.beam == 1 and is_one:  # one hypothesis is completed, so there is nothing to rank
        return (1, "none", 0.0)
    if setting.length_norm == "none" or setting.length_penalty == 0:
        return (setting.beam, "none", 0.0)
    return setting


def can_rank_again(search: SearchConfig) -> bool:
    """Return whether the hypotheses that a search ends with do not depend on the length norm and penalty."""
    return search.stop in ("count", "length") and search.coverage_penalty == 0


def searches_needed(search: SearchConfig, settings: Sequence[Setting]) -> int:
    """Return the number of times that all lines are decoded."""
    return len({setting.beam for setting in settings}) if can_rank_again(search) else len(settings)


def decode_all(
    translator: TorchTranslator, data: TestSet, settings: Sequence[Setting], *, on_progress: Progress
) -> Iterator[Decoded]:
    """Yield the outputs of every setting."""
    requests = requests_for(translator, data.sources, data.heads)
    translator.candidates(requests[:_WARM_UP], on_progress=_ignore)
    if not can_rank_again(translator.search):
        for setting in settings:
            yield _decoded(translator, requests, setting, on_progress)
        return
    for beam in dict.fromkeys(setting.beam for setting in settings):
        rank_by_log_prob = {"beam": beam, "nbest": 1, "length_norm": "none", "word_reward": 0.0}
        start = time.perf_counter()
        found = translator.with_search(rank_by_log_prob).candidates(requests, on_progress=on_progress)
        speed = len(requests) / (time.perf_counter() - start)
        for setting in (setting for setting in settings if setting.beam == beam):
            ranking = Ranking(setting.length_norm, setting.length_penalty, translator.search.word_reward)
            yield Decoded(setting, tuple(_best_text(many, ranking) for many in found), speed)


def _decoded(
    translator: TorchTranslator, requests: Sequence[Request], setting: Setting, on_progress: Progress
) -> Decoded:
    """Decode with one setting."""
    start = time.perf_counter()
    searching = translator.with_search({**setting.options(), "nbest": 1})
    outputs = searching.translate(requests, on_progress=on_progress)
    speed = len(requests) / (time.perf_counter() - start)
    return Decoded(setting, tuple(many[0].text for many in outputs), speed)


def _best_text(candidates: Sequence[Hypothesis], ranking: Ranking) -> str:
    """Return the output that a search with this ranking prefers; the scores of the candidates are log P."""

    def key(one: Hypothesis) -> tuple[bool, float]:
        length = max(1, len(one.token_log_probs))  # 0 for an empty line, which has one candidate
        return one.finished, ranking.score(one.score, length)

    return max(candidates, key=key).text if candidates else ""


def _ignore(count: int) -> None:
    """Report no progress."""
