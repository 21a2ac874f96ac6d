"""Requests are sharded over the processes of a group, and outputs are returned in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pytest

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.pipeline import Progress
from seqloom.decode.translator import Outputs, Translator
from seqloom.errors import SeqloomError
from seqloom.types import Hypothesis, Request
from support.process_groups import thread_group


class Echo(Translator):
    """Translator that returns each line with its options."""

    engine, description, alternative = "echo", "An echo", "ask for less"
    capabilities = frozenset({"prefix", "sampling"})  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(SearchConfig())

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        if any(request.source == "bad" for request in requests):
            raise SeqloomError("The line bad cannot be translated.")
        on_progress(len(requests))
        return [[Hypothesis(f"{one.prefix}{one.source}", float(search.beam))] for one in requests]

    def _sample(self, requests: list[Request], options: SamplingConfig, *, on_progress: Progress) -> Outputs:
        texts = [f"{one.source} {options.seed} {one.key} {self.search.longest}" for one in requests]
        return [[Hypothesis(text, 0.0)] for text in texts]


def together(size: int, work: Any) -> Any:
    """Return the result of the main process while the others work for it."""
    with thread_group(size, Echo) as translator:
        return work(translator)


LINES = ["one", "", "three thousand", "two", "five words are in this", "x"]


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_outputs_are_in_the_order_of_the_lines(size: int) -> None:
    seen: list[int] = []
    requests = [Request(line, prefix=f"{i}:") for i, line in enumerate(LINES)]
    found = together(size, lambda t: t.translate(requests, beam=7, on_progress=seen.append))
    assert [one[0].text for one in found] == [f"{i}:{line}" for i, line in enumerate(LINES)]
    assert {one[0].score for one in found} == {7.0}
    assert sum(seen) == len(LINES)


def test_samples_depend_on_the_key_of_their_request() -> None:
    requests = [Request(line, key=key) for key, line in enumerate(LINES, 10)]
    found = together(2, lambda t: t.with_search({"longest": 4}).sample(requests, SamplingConfig(seed=3)))
    assert [one[0].text for one in found] == [f"{line} 3 {10 + i} 4" for i, line in enumerate(LINES)]


class Wide(Echo):
    """Translator that widens its beam with the number of outputs, like phrase-based ones."""

    def with_search(self, options: Mapping[str, Any]) -> Self:
        wider = {"beam": options["nbest"]} if "nbest" in options else {}
        return super().with_search({**wider, **options})


def test_search_options_are_changed_by_the_wrapped_translator() -> None:
    with thread_group(2, Wide) as translator:
        found = translator.translate(LINES, nbest=9)
    assert {one[0].score for one in found} == {9.0}


def test_missing_capabilities_are_refused() -> None:
    with pytest.raises(SeqloomError, match="An echo does not support alignments"):
        together(2, lambda t: t.translate(LINES, alignment=True))


@pytest.mark.parametrize("lines", [["bad", "a"], ["longer", "bad", "a"]], ids=["main", "other"])
def test_the_main_process_raises_the_error_of_any_process(lines: list[str]) -> None:
    with pytest.raises(SeqloomError, match="The line bad"):
        together(2, lambda t: t.translate(lines))
