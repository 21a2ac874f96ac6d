"""Interface of all translators: requests in, hypotheses out.

A translator declares its capabilities and the search options that it honours. Anything else is refused here, in
one place, so that no request or option is silently ignored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, overload

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.pipeline import Progress
from seqloom.decode.quality_flags import flags
from seqloom.errors import SeqloomError, quoted
from seqloom.types import DependencyTree, Hypothesis, Request

Capability = Literal["nbest", "alignment", "prefix", "required", "sampling", "exact", "token_scores", "trees"]
_WORDING: dict[Capability, str] = {
    "nbest": "n-best lists",
    "alignment": "alignments",
    "prefix": "prefixes",
    "required": "required words per line",
    "sampling": "sampling",
    "exact": "exact search",
    "token_scores": "token scores",
    "trees": "dependency trees",
}
Requests = str | Request | Sequence[str | Request]
Outputs = list[list[Hypothesis]]

NOTHING = Hypothesis(text="", score=0.0)  # the output for an empty line
IMPOSSIBLE = Hypothesis(text="", score=-math.inf, log_prob=-math.inf, finished=False, flags=("impossible",))


class Translator(ABC):
    """Interface of a model for the command line, evaluation and the server.

    A translator is immutable: `with_search` returns a new one.
    """

    engine: str  # name reported to users
    description: str  # subject of error messages
    alternative: str  # hint of these messages
    search_options: ClassVar[frozenset[str]] = frozenset(SearchConfig.model_fields)  # those that it honours

    def __init__(self, search: SearchConfig, *, length_ratio: float | None = None) -> None:
        self._search, self.length_ratio = search, length_ratio

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """Features that requests may use."""

    @property
    def search(self) -> SearchConfig:
        """Default search options."""
        return self._search

    def with_search(self, options: Mapping[str, Any]) -> Self:
        """Return a translator with these search options changed."""
        if not options:
            return self
        changed = copy(self)
        changed._search = SearchConfig.checked({**self.search.model_dump(), **options}, "search")
        return changed

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings, but means one line
        self,
        requests: str | Request,
        options: SearchConfig | None = None,
        *,
        beam: int | None = None,
        nbest: int | None = None,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> list[Hypothesis]: ...

    @overload
    def translate(
        self,
        requests: Sequence[str | Request],
        options: SearchConfig | None = None,
        *,
        beam: int | None = None,
        nbest: int | None = None,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> Outputs: ...

    def translate(
        self,
        requests: Requests,
        options: SearchConfig | None = None,
        *,
        beam: int | None = None,
        nbest: int | None = None,
        alignment: bool = False,
        on_progress: Progress | None = None,
    ) -> Outputs | list[Hypothesis]:
        """Return the n best hypotheses of each request, in the order of the requests.

        A request is a line of text or a `Request`; for a single one, its hypotheses are returned. The output
        for an empty line is empty. If no output is possible, the only hypothesis is empty and has the flag
        `impossible`.
        """
        parsed = as_requests(requests)
        if options is not None and not isinstance(options, SearchConfig):
            raise SeqloomError(
                f"The search options must be a SearchConfig, got {quoted(options)}.",
                "e.g. translate(lines, seqloom.SearchConfig(beam=4)) or translator.with_search({'beam': 4})",
            )
        chosen = self if options is None else self.with_search(options.model_dump())
        given = {"beam": beam, "nbest": nbest}
        search = chosen.with_search({name: value for name, value in given.items() if value is not None}).search
        needs: set[Capability] = {"alignment"} if alignment else set()
        self.check(search, needs | _needs(parsed))
        found = self._translate(parsed, search, alignment=alignment, on_progress=on_progress or _ignore)
        return self._with_flags(requests, parsed, found)

    @overload
    def sample(  # type: ignore[overload-overlap]
        self, requests: str | Request, options: SamplingConfig, *, on_progress: Progress | None = None
    ) -> list[Hypothesis]: ...

    @overload
    def sample(
        self, requests: Sequence[str | Request], options: SamplingConfig, *, on_progress: Progress | None = None
    ) -> Outputs: ...

    def sample(
        self, requests: Requests, options: SamplingConfig, *, on_progress: Progress | None = None
    ) -> Outputs | list[Hypothesis]:
        """Return the samples of each request, in the order in which they are drawn.

        Equal lines get equal samples, unless their requests have different keys, such as line numbers.
        """
        parsed = as_requests(requests)
        needs: set[Capability] = {"sampling"}
        self.check(self.search, needs | _needs(parsed))
        if self.search.require or any(request.required for request in parsed):
            raise SeqloomError(
                "Sampling does not support required words.", "leave out search.require and required words"
            )
        found = self._sample(parsed, options, on_progress=on_progress or _ignore)
        return self._with_flags(requests, parsed, found)

    def exact(
        self, requests: Sequence[str | Request], *, expand: int, on_progress: Progress | None = None
    ) -> Outputs:
        """Return the output of each request with the highest score of all outputs.

        The search starts from the output of the beam and continues at most `expand` hypotheses per request.
        The output has the flag `unproven` if that is not enough to exclude a better one.
        """
        parsed = as_requests(requests)
        needs: set[Capability] = {"exact"}
        self.check(self.search, needs | _needs(parsed))
        if self.search.require or any(request.required for request in parsed):
            raise SeqloomError(
                "Exact search does not support required words.", "leave out search.require and required words"
            )
        found = self._exact(parsed, expand, on_progress=on_progress or _ignore)
        return [outputs or [IMPOSSIBLE] for outputs in found]

    @abstractmethod
    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        """Return the hypotheses, best first; none for a request without any possible output."""

    def _sample(self, requests: list[Request], options: SamplingConfig, *, on_progress: Progress) -> Outputs:
        """Return samples; overridden by translators with the capability `sampling`."""
        raise AssertionError(f"{type(self).__name__} declares sampling but does not implement it")

    def _exact(self, requests: list[Request], expand: int, *, on_progress: Progress) -> Outputs:
        """Return the best outputs with their flags; overridden by translators with the capability `exact`."""
        raise AssertionError(f"{type(self).__name__} declares exact search but does not implement it")

    def check(self, search: SearchConfig, needs: AbstractSet[Capability] = frozenset()) -> None:
        """Raise if this translator lacks a capability or would ignore a search option."""
        for need, wording in _WORDING.items():
            if need in needs and need not in self.capabilities:
                raise SeqloomError(f"{self.description} does not support {wording}.", self.alternative)
        for name in self.unsupported(search):
            value = getattr(search, name)
            raise SeqloomError(f"{self.description} does not support search.{name}={value}.", self.alternative)

    def can_generate(self, text: str) -> bool:
        """Return whether the target vocabulary can express this text."""
        return True

    @classmethod
    def unsupported(cls, search: SearchConfig) -> list[str]:
        """Return the options that differ from their defaults and would be ignored."""
        return search.differing(SearchConfig.model_fields.keys() - cls.search_options)

    @classmethod
    def supported(cls, search: SearchConfig) -> SearchConfig:
        """Return the options that are honoured, with all others at their defaults."""
        ignored = cls.unsupported(search)
        kept = {name: value for name, value in search.model_dump().items() if name not in ignored}
        return SearchConfig.checked(kept, "search")

    def _with_flags(self, given: Requests, parsed: list[Request], found: Outputs) -> Outputs | list[Hypothesis]:
        outputs = [self._flagged(request, many) for request, many in zip(parsed, found, strict=True)]
        return outputs[0] if isinstance(given, str | Request) else outputs

    def _flagged(self, request: Request, found: list[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses with their quality flags."""
        return [replace(one, flags=tuple(flags(request.source, one, self.length_ratio))) for one in found] or [
            IMPOSSIBLE
        ]


def requests_for(
    translator: Translator, sources: Sequence[str], trees: Sequence[DependencyTree | None] | None = None
) -> list[Request]:
    """Return a request for each source, with its tree if the model reads trees."""
    if trees is None or "trees" not in translator.capabilities:
        return [Request(source) for source in sources]
    return [Request(source, tree=tree) for source, tree in zip(sources, trees, strict=True)]


def as_requests(requests: Requests) -> list[Request]:
    """Return one request per line; raise if an item is neither text nor a request."""
    if isinstance(requests, str | Request):
        return as_requests([requests])
    if not isinstance(requests, Iterable):
        raise SeqloomError(f"Cannot translate {quoted(requests)}.", "pass a string or a list of strings")
    return [_as_request(one, number) for number, one in enumerate(requests, 1)]


def _as_request(one: object, number: int) -> Request:
    if isinstance(one, Request):
        return one
    if isinstance(one, str):
        return Request(one)
    raise SeqloomError(
        f"Line {number} must be a string, got {type(one).__name__}: {quoted(one)}.", "pass one string per line"
    )


def _needs(requests: Sequence[Request]) -> set[Capability]:
    """Return the capabilities that these requests need."""
    found: dict[Capability, bool] = {
        "prefix": any(one.prefix for one in requests),
        "required": any(one.required for one in requests),
        "trees": any(one.tree is not None for one in requests),
    }
    return {need for need, is_needed in found.items() if is_needed}


def _ignore(count: int) -> None:
    """Report no progress."""
