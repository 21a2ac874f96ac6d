"""Decoding strategies: beam search, sampling, minimum Bayes risk. Adding one is one class here.

A strategy is a set of options and a method that gets outputs from any translator. On the command line, select a
registered one with --strategy NAME and --set strategy.OPTION=VALUE.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import Field

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.mbr import UtilityName, by_least_risk
from seqloom.decode.pipeline import Progress
from seqloom.decode.translator import Capability, Outputs, Translator
from seqloom.errors import SeqloomError, unknown
from seqloom.settings import Settings
from seqloom.types import Hypothesis, Request

# The search options that also apply to samples: output constraints and lengths.
_SAMPLING_OPTIONS = frozenset(
    {
        "forbid",
        "no_repeat",
        "shortlist",
        "min_length",
        "longest",
        "max_length_factor",
        "max_length_extra",
        "batch_tokens",
    }
)
# Those that only change which outputs a beam search finds.
_BEAM_OPTIONS = frozenset({"nbest", "groups", "diversity", "stop", "stop_after", "require"})


class Strategy(Settings):
    """Options and method of getting outputs from a translator."""

    name: ClassVar[str]  # set by `register_strategy`

    @property
    def needs(self) -> frozenset[Capability]:
        """Capabilities that the translator must have."""
        return frozenset()

    @property
    def search_options(self) -> frozenset[str]:
        """Search options that have an effect with this strategy."""
        return frozenset(SearchConfig.model_fields)

    @property
    def search_changes(self) -> dict[str, int]:
        """Search options that the strategy sets itself."""
        return {}

    @property
    def is_beam_search(self) -> bool:
        """Whether the outputs are those of a plain beam search, which has a search tree."""
        return False

    @property
    def is_exact(self) -> bool:
        """Whether the outputs are proved to be the best, or flagged as unproven."""
        return False

    def outputs_per_line(self, search: SearchConfig) -> int:
        """Return the maximum number of outputs per line with these search options."""
        return search.nbest

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Raise if one of the given search options has no effect with this strategy."""
        used = self.search_options
        for option in given:
            if option not in used:
                raise SeqloomError(
                    f"search.{option} has no effect with the strategy {self.name}.",
                    f"leave it out; {self.name} uses {', '.join(f'search.{known}' for known in sorted(used))}",
                )

    @abstractmethod
    def translate(
        self,
        translator: Translator,
        requests: Sequence[str | Request],
        *,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> Outputs:
        """Return the outputs for each request, best first, in the order of the requests."""


STRATEGIES: dict[str, type[Strategy]] = {}
AnyStrategy = TypeVar("AnyStrategy", bound=type[Strategy])


def register_strategy(name: str) -> Callable[[AnyStrategy], AnyStrategy]:
    """Return a decorator that registers a strategy under a name."""

    def add(strategy: AnyStrategy) -> AnyStrategy:
        assert name not in STRATEGIES, f"the strategy {name} is already registered"
        strategy.name = name
        STRATEGIES[name] = strategy
        return strategy

    return add


def make_strategy(name: str, options: Mapping[str, Any]) -> Strategy:
    """Return the strategy of this name with these options."""
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[name].checked(options, "strategy")


@register_strategy("beam")
class BeamSearch(Strategy):
    """Beam search: the n best outputs."""

    beam: int | None = Field(None, ge=1, description="beam size; None = as in the run")
    nbest: int | None = Field(None, ge=1, description="outputs per line; None = as in the run")

    @property
    def search_changes(self) -> dict[str, int]:
        given = {"beam": self.beam, "nbest": self.nbest}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def is_beam_search(self) -> bool:
        return True

    def translate(
        self,
        translator: Translator,
        requests: Sequence[str | Request],
        *,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> Outputs:
        searching = translator.with_search(self.search_changes)
        return searching.translate(requests, alignment=alignment, on_progress=on_progress)


@register_strategy("exact")
class ExactSearch(Strategy):
    """Exact search: the output with the highest score of all, found by branch and bound."""

    beam: int | None = Field(
        None, ge=1, description="beam size of the search for a first output; None = as in the run"
    )
    expand: int = Field(
        1000, ge=1, description="maximum number of hypotheses that the search continues per line"
    )

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({"exact"})

    @property
    def search_options(self) -> frozenset[str]:
        return frozenset(SearchConfig.model_fields) - _BEAM_OPTIONS

    @property
    def search_changes(self) -> dict[str, int]:
        return {"nbest": 1} if self.beam is None else {"nbest": 1, "beam": self.beam}

    @property
    def is_exact(self) -> bool:
        return True

    def outputs_per_line(self, search: SearchConfig) -> int:
        return 1

    def translate(
        self,
        translator: Translator,
        requests: Sequence[str | Request],
        *,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> Outputs:
        if alignment:
            raise SeqloomError("Exact search does not support alignments.", "use beam search, e.g. --beam 5")
        searching = translator.with_search(self.search_changes)
        return searching.exact(requests, expand=self.expand, on_progress=on_progress)


@register_strategy("sample")
class Sampling(Strategy, SamplingConfig):
    """Sampling: outputs drawn from the model's distribution."""

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({"sampling"})

    @property
    def search_options(self) -> frozenset[str]:
        return _SAMPLING_OPTIONS

    def outputs_per_line(self, search: SearchConfig) -> int:
        return self.samples

    def translate(
        self,
        translator: Translator,
        requests: Sequence[str | Request],
        *,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> Outputs:
        if alignment:
            raise SeqloomError("Sampling does not support alignments.", "use beam search, e.g. --beam 5")
        return translator.sample(requests, self, on_progress=on_progress)


@register_strategy("mbr")
class MinimumBayesRisk(Sampling):
    """Minimum Bayes risk: the candidate that is most similar to all candidates on average."""

    samples: int = Field(32, ge=1, description="samples to choose from")
    utility: UtilityName = Field("chrf", description="similarity of two outputs: chrf or bleu")
    beam: int | None = Field(None, ge=1, description="beam size; choose from its outputs instead of samples")
    nbest: int = Field(1, ge=1, description="outputs per line, highest expected utility first")

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({"sampling"} if self.beam is None else {"nbest"})

    @property
    def search_options(self) -> frozenset[str]:
        return _SAMPLING_OPTIONS if self.beam is None else frozenset(SearchConfig.model_fields)

    @property
    def search_changes(self) -> dict[str, int]:
        return {} if self.beam is None else {"beam": self.beam, "nbest": self.beam}

    def outputs_per_line(self, search: SearchConfig) -> int:
        return self.nbest

    def translate(
        self,
        translator: Translator,
        requests: Sequence[str | Request],
        *,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> Outputs:
        if self.beam is None:
            found = super().translate(translator, requests, alignment=alignment, on_progress=on_progress)
        else:
            searching = translator.with_search(self.search_changes)
            found = searching.translate(requests, alignment=alignment, on_progress=on_progress)
        ranked = by_least_risk(found, self.utility, drawn=self.beam is None)
        return [hypotheses[: self.nbest] for hypotheses in ranked]


@register_strategy("best-of")
class BestOf(Sampling):
    """Best of several samples: those with the highest log-probability per token, without duplicates."""

    samples: int = Field(16, ge=1, description="samples to choose from")
    nbest: int = Field(1, ge=1, description="outputs per line, most probable first")

    def outputs_per_line(self, search: SearchConfig) -> int:
        return self.nbest

    def translate(
        self,
        translator: Translator,
        requests: Sequence[str | Request],
        *,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> Outputs:
        found = super().translate(translator, requests, alignment=alignment, on_progress=on_progress)
        return [sorted(_distinct(many), key=_mean, reverse=True)[: self.nbest] for many in found]


def _distinct(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    return list({one.text: one for one in reversed(hypotheses)}.values())


def _mean(hypothesis: Hypothesis) -> float:
    """Return the log-probability per token, including the end."""
    return hypothesis.log_prob / max(1, len(hypothesis.token_log_probs))
