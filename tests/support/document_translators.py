"""Translators for tests of documents: their outputs are simple functions of the source."""

from __future__ import annotations

from collections.abc import Callable

from seqloom.decode.config import SearchConfig
from seqloom.decode.pipeline import Progress
from seqloom.decode.translator import Capability, Outputs, Translator
from seqloom.types import Hypothesis, Request


class FunctionTranslator(Translator):
    """Translator that applies a function to every source; the default copies it."""

    engine = "function"
    description = "This translator"
    alternative = "use another one"

    def __init__(
        self,
        function: Callable[[Request], str] = lambda request: request.source,
        capabilities: frozenset[Capability] = frozenset({"required", "nbest"}),
    ) -> None:
        super().__init__(SearchConfig())
        self._function, self._capabilities = function, capabilities
        self.requests: list[Request] = []

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._capabilities

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        self.requests += requests
        on_progress(len(requests))
        return [[Hypothesis(self._function(request), -float(i))] for i, request in enumerate(requests)]


class WordTranslator(Translator):
    """Translator that changes every word by itself and reverses their order, with the exact alignment."""

    engine = "words"
    description = "This translator"
    alternative = "use another one"

    def __init__(self, word: Callable[[str], str] = str.upper, *, reverse: bool = True) -> None:
        super().__init__(SearchConfig())
        self._word, self._reverse = word, reverse

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset({"alignment"})

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        return [[self._hypothesis(request.source, alignment=alignment)] for request in requests]

    def _hypothesis(self, source: str, *, alignment: bool) -> Hypothesis:
        words = source.split()
        order = list(range(len(words)))[:: -1 if self._reverse else 1]
        output = [self._word(words[i]) for i in order]
        if not alignment:
            return Hypothesis(" ".join(output), 0.0)
        rows = [
            *([float(i == j) for j in range(len(words))] + [0.0] for i in order),
            [0.0] * len(words) + [1.0],
        ]
        return Hypothesis(
            " ".join(output),
            0.0,
            tokens=tuple(f"▁{word}" for word in output),
            source_tokens=(*(f"▁{word}" for word in words), "</s>"),
            alignment=tuple(map(tuple, rows)),
        )
