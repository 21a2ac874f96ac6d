"""What a model that is fitted at once, without gradients, learns from, and what it has to offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.decode.config import SearchConfig
from seqloom.decode.translator import Translator
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example


@dataclass(frozen=True)
class FitData:
    """All that a counting model learns from."""

    tokenizers: TokenizerPair
    train: TokenStore
    valid: TokenStore  # to choose weights and the like by; never counted
    valid_examples: Callable[[], Iterator[Example]]  # the validation pairs as text
    seed: int = 1
    threads: int = 1


class FittedModel(Protocol):
    """A model whose parameters are counted or found by EM. What it learned is a dict of tensors."""

    def fit(self, lesson: FitData) -> dict[str, float]:
        """The figures of the fit, for the log; afterwards the model can be used."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """All that was learned."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what `state` gave."""
        ...


@runtime_checkable
class HasTranslator(Protocol):
    """A model that is not decoded token by token: it brings its own translator."""

    def translator(
        self,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        workers: int | None,
        length_ratio: float | None,
    ) -> Translator:
        """Return its translator; `search` are the options of the run, `workers` None = for this machine."""
        ...

    @staticmethod
    def unsupported_options(search: SearchConfig) -> list[str]:
        """Return the names of the search options that its translator would ignore."""
        ...


@runtime_checkable
class HasScorer(Protocol):
    """A model with a search of its own that can be made to say a given target."""

    def scorer(self, tokenizers: TokenizerPair, *, workers: int | None) -> Any:
        """What finds its best derivation of given targets; `workers` None = for this machine."""
        ...
