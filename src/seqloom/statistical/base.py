"""Interfaces of models that are fitted in one pass, without gradients, and the data they are fitted to."""

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
    """Everything that a fitted model learns from."""

    tokenizers: TokenizerPair
    train: TokenStore
    valid: TokenStore  # for tuning weights; never counted
    valid_examples: Callable[[], Iterator[Example]]  # the validation pairs as text
    seed: int = 1
    threads: int = 1


class FittedModel(Protocol):
    """A model whose parameters are counted or found by EM; its parameters are a dict of tensors."""

    def fit(self, data: FitData) -> dict[str, float]:
        """Fit the model and return the metrics of the fit, for the log."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return all fitted parameters by name."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the parameters that `state_dict` returned."""
        ...


@runtime_checkable
class HasTranslator(Protocol):
    """A model that is not decoded token by token and provides a translator instead."""

    def translator(
        self,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        workers: int | None,
        length_ratio: float | None,
    ) -> Translator:
        """Return the translator; `search` are the run's options, `workers=None` means an automatic number."""
        ...

    @staticmethod
    def unsupported_options(search: SearchConfig) -> list[str]:
        """Return the names of the search options that the translator would ignore."""
        ...


@runtime_checkable
class HasScorer(Protocol):
    """A model with its own search that can also score a given target."""

    def scorer(self, tokenizers: TokenizerPair, *, workers: int | None) -> Any:
        """Return a scorer that finds the best derivation of a given target; `workers` as in `translator`."""
        ...
