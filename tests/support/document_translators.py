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
