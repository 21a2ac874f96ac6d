"""The interface of all translators: requests in, hypotheses out, and what each translator supports.

A translator declares what it can do: its capabilities, and the search options that it honours. Anything else is
refused here, in one place, so no translator ignores what it is asked for.
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

Capability = Literal["nbest", "alignment", "prefix", "required", "sampling", "token_scores", "trees"]
_WORDING: dict[Capability, str] = {
    "nbest": "n-best lists",
    "alignment": "alignments",
    "prefix": "given prefixes",
    "required": "required words per line",
    "sampling": "sampling",
    "token_scores": "scores of tokens",
    "trees": "dependency trees",
}
Requests = str | Request | Sequence[str | Request]
Outputs = list[list[Hypothesis]]

NOTHING = Hypothesis(text="", score=0.0)  # the output for an empty line
IMPOSSIBLE = Hypothesis(text="", score=-math.inf, log_prob=-math.inf, finished=False, flags=("impossible",))


class Translator(ABC):
    """All that the command line, evaluation and the server see of a model.

    A translator never changes: `with_search` returns another one.
    """

    engine: str  # as reported to users
    description: str  # the subject of an error message
    alternative: str  # the hint of that message
    search_options: ClassVar[frozenset[str]] = frozenset(SearchConfig.model_fields)  # the ones it honours

    def __init__(self, search: SearchConfig, *, length_ratio: float | None = None) -> None:
        self._search, self.length_ratio = search, length_ratio

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """What requests may ask for."""

    @property
    def search(self) -> SearchConfig:
        """The search options that are used unless others are given."""
        return self._search

    def with_search(self, options: Mapping[str, Any]) -> Self:
        """Return a translator with these search options changed."""
        if not options:
            return self
        changed = copy(self)
        changed._search = SearchConfig.checked({**self.search.model_dump(), **options}, "search")
        return changed

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings, and means one line
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
        """Return the n best hypotheses of every request, in the order of the requests.

        A request is a line of text or a `Request`; for a single one its hypotheses are returned. An empty line
        stays empty. If nothing can be generated, the only hypothesis is empty and has the flag `impossible`.
        """
        asked = as_requests(requests)
        if options is not None and not isinstance(options, SearchConfig):
            raise SeqloomError(
                f"The search options are {quoted(options)}, not a SearchConfig.",
                "e.g. translate(lines, seqloom.SearchConfig(beam=4)), or translator.with_search({'beam': 4})",
            )
        chosen = self if options is None else self.with_search(options.model_dump())
        given = {"beam": beam, "nbest": nbest}
        search = chosen.with_search({name: value for name, value in given.items() if value is not None}).search
        needs: set[Capability] = {"alignment"} if alignment else set()
        self.check(search, needs | _needs(asked))
        found = self._translate(asked, search, alignment=alignment, on_progress=on_progress or _ignore)
        return self._delivered(requests, asked, found)

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
        """Return samples for every request, in the order in which they are drawn.

        Equal lines get equal samples, unless the keys of their requests, such as line numbers, differ.
        """
        asked = as_requests(requests)
        needs: set[Capability] = {"sampling"}
        self.check(self.search, needs | _needs(asked))
        if self.search.require or any(request.required for request in asked):
            raise SeqloomError("Words cannot be required of samples.", "leave out search.require")
        found = self._sample(asked, options, on_progress=on_progress or _ignore)
        return self._delivered(requests, asked, found)

    @abstractmethod
    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        """Search for hypotheses, best first; none for a request that has no possible output."""

    def _sample(self, requests: list[Request], options: SamplingConfig, *, on_progress: Progress) -> Outputs:
        """Draw samples; overridden by translators with the capability `sampling`."""
        raise AssertionError(f"{type(self).__name__} declares sampling and does not implement it")

    def check(self, search: SearchConfig, needs: AbstractSet[Capability] = frozenset()) -> None:
        """Raise if this translator lacks a capability or would ignore a search option."""
        for need, wording in _WORDING.items():
            if need in needs and need not in self.capabilities:
                raise SeqloomError(f"{self.description} does not support {wording}.", self.alternative)
        for name in self.unsupported(search):
            value = getattr(search, name)
            raise SeqloomError(f"{self.description} does not support search.{name}={value}.", self.alternative)

    @classmethod
    def unsupported(cls, search: SearchConfig) -> list[str]:
        """Return the names of the options that differ from their defaults and would be ignored."""
        return search.differing(SearchConfig.model_fields.keys() - cls.search_options)

    @classmethod
    def supported(cls, search: SearchConfig) -> SearchConfig:
        """Return the options that are honoured, all others at their defaults."""
        ignored = cls.unsupported(search)
        kept = {name: value for name, value in search.model_dump().items() if name not in ignored}
        return SearchConfig.checked(kept, "search")

    def _delivered(self, given: Requests, asked: list[Request], found: Outputs) -> Outputs | list[Hypothesis]:
        outputs = [self._flagged(request, many) for request, many in zip(asked, found, strict=True)]
        return outputs[0] if isinstance(given, str | Request) else outputs

    def _flagged(self, request: Request, found: list[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses with their quality flags."""
        return [replace(one, flags=tuple(flags(request.source, one, self.length_ratio))) for one in found] or [
            IMPOSSIBLE
        ]


def requests_for(
    translator: Translator, sources: Sequence[str], trees: Sequence[DependencyTree | None] | None = None
) -> list[Request]:
    """Return a request for every source, with its tree if the model reads trees."""
    if trees is None or "trees" not in translator.capabilities:
        return [Request(source) for source in sources]
    return [Request(source, tree=tree) for source, tree in zip(sources, trees, strict=True)]


def as_requests(requests: Requests) -> list[Request]:
    """Return one request for every line; anything that is neither text nor a request is an error."""
    if isinstance(requests, str | Request):
        return as_requests([requests])
    if not isinstance(requests, Iterable):
        raise SeqloomError(f"{quoted(requests)} cannot be translated.", "give a string or a list of strings")
    return [_as_request(one, number) for number, one in enumerate(requests, 1)]


def _as_request(one: object, number: int) -> Request:
    if isinstance(one, Request):
        return one
    if isinstance(one, str):
        return Request(one)
    raise SeqloomError(
        f"Line {number} is not text but {type(one).__name__}: {quoted(one)}.", "give a string for every line"
    )


def _needs(requests: Sequence[Request]) -> set[Capability]:
    """Return the capabilities that these requests ask for."""
    found: dict[Capability, bool] = {
        "prefix": any(one.prefix for one in requests),
        "required": any(one.required for one in requests),
        "trees": any(one.tree is not None for one in requests),
    }
    return {need for need, is_asked in found.items() if is_asked}


def _ignore(count: int) -> None:
    """Report no progress."""
