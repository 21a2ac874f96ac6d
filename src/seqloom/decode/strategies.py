"""Decoding strategies: beam search, sampling, minimum Bayes risk. Adding one is one class here.

A strategy is a set of options and a method that gets outputs from any translator. On the command line, every
registered one is available by --strategy NAME and --set strategy.OPTION=VALUE.
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

# The options of a search that also apply to samples: what an output may contain, and how long it may be.
_FOR_SAMPLES = frozenset(
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


class Strategy(Settings):
    """A way to get outputs from a translator."""

    name: ClassVar[str]  # set by `register_strategy`

    @property
    def needs(self) -> frozenset[Capability]:
        """The capabilities that the translator must have."""
        return frozenset()

    @property
    def search_options(self) -> frozenset[str]:
        """The search options that have an effect under this strategy."""
        return frozenset(SearchConfig.model_fields)

    @property
    def search_changes(self) -> dict[str, int]:
        """The search options that the strategy sets itself."""
        return {}

    @property
    def is_beam_search(self) -> bool:
        """Whether the outputs are those of a plain beam search, which has a search tree."""
        return False

    def outputs_per_line(self, search: SearchConfig) -> int:
        """Return the largest number of outputs of a line by a translator with these search options."""
        return search.nbest

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Raise if one of the given search options has no effect under this strategy."""
        for option in given:
            if option not in self.search_options:
                raise SeqloomError(
                    f"search.{option} has no effect with the strategy {self.name}.",
                    f"it uses {', '.join(f'search.{known}' for known in sorted(self.search_options))}",
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
        """Return the outputs for every request, best first, in the order of the requests."""


STRATEGIES: dict[str, type[Strategy]] = {}
AnyStrategy = TypeVar("AnyStrategy", bound=type[Strategy])


def register_strategy(name: str) -> Callable[[AnyStrategy], AnyStrategy]:
    """Return a decorator that makes a strategy available under a name."""

    def add(strategy: AnyStrategy) -> AnyStrategy:
        assert name not in STRATEGIES, f"two strategies are called {name}"
        strategy.name = name
        STRATEGIES[name] = strategy
        return strategy

    return add


def make_strategy(name: str, options: Mapping[str, Any]) -> Strategy:
    """Return the strategy of that name with these options."""
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[name].checked(options, "strategy")


@register_strategy("beam")
class BeamSearch(Strategy):
    """The n best outputs that beam search finds."""

    beam: int | None = Field(None, ge=1, description="hypotheses kept; None = as in the run")
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


@register_strategy("sample")
class Sampling(Strategy, SamplingConfig):
    """Outputs drawn from the model's distribution."""

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({"sampling"})

    @property
    def search_options(self) -> frozenset[str]:
        return _FOR_SAMPLES

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
            raise SeqloomError("Samples have no alignment.", "use beam search, e.g. --beam 5")
        return translator.sample(requests, self, on_progress=on_progress)


@register_strategy("mbr")
class MinimumBayesRisk(Sampling):
    """Of many candidates, the output that is most similar to all of them on average."""

    samples: int = Field(32, ge=1, description="samples to choose from")
    utility: UtilityName = Field("chrf", description="similarity of two outputs: chrf or bleu")
    beam: int | None = Field(None, ge=1, description="choose from what this beam finds instead of samples")
    nbest: int = Field(1, ge=1, description="outputs per line, highest expected utility first")

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({"sampling"} if self.beam is None else {"nbest"})

    @property
    def search_options(self) -> frozenset[str]:
        return _FOR_SAMPLES if self.beam is None else frozenset(SearchConfig.model_fields)

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
    """Of several samples, the most probable ones by their log-probability per token, each text once."""

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
    """Return the log-probability per token, the end included."""
    return hypothesis.log_prob / max(1, len(hypothesis.token_log_probs))
