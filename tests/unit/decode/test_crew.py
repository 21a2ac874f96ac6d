"""Lines are dealt out to a team and come back in order, with what belongs to each of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import Queue
from typing import Any

import pytest

from seqloom.decode.crew import crew
from seqloom.errors import SeqloomError
from seqloom.team import Team
from seqloom.types import Hypothesis


class Threads(Team):
    """A team whose processes are threads: what `told` and `gathered` promise, by queues."""

    boxes: list[Queue[Any]]
    answers: list[Queue[Any]]

    def told(self, value: Any) -> Any:
        if not self.leads:
            return self.boxes[self.rank].get(timeout=10)
        for box in self.boxes[1:]:
            box.put(value)
        return value

    def gathered(self, value: Any) -> list[Any]:
        if not self.leads:
            self.answers[self.rank].put(value)
            return []
        return [value, *(box.get(timeout=10) for box in self.answers[1:])]


class Echo:
    """Answers with the line, and with what was given for it."""

    def translate(self, lines: Sequence[str], *, on_progress: Any = None, **given: Any) -> Any:
        if "bad" in lines:
            raise SeqloomError("The line bad cannot be translated.")
        if on_progress:
            on_progress(len(lines))
        prefixes = given.get("prefixes") or [""] * len(lines)
        return [[Hypothesis(text=p + line, score=0.0)] for p, line in zip(prefixes, lines, strict=True)]

    def sample(self, lines: Sequence[str], options: str, *, keys: Sequence[int], **_: Any) -> Any:
        return [
            [Hypothesis(text=f"{line} {options} {key}", score=0.0)]
            for line, key in zip(lines, keys, strict=True)
        ]


def together(size: int, work: Any) -> Any:
    """What the leader's work returns while the others serve."""
    boxes: list[Queue[Any]] = [Queue() for _ in range(size)]
    answers: list[Queue[Any]] = [Queue() for _ in range(size)]
    teams = [Threads(rank, size) for rank in range(size)]
    for team in teams:
        object.__setattr__(team, "boxes", boxes)
        object.__setattr__(team, "answers", answers)

    def serve(team: Team) -> None:
        with crew(Echo(), team) as translator:
            assert translator is None

    others = [threading.Thread(target=serve, args=(team,), daemon=True) for team in teams[1:]]
    for other in others:
        other.start()
    try:
        with crew(Echo(), teams[0]) as translator:
            return work(translator)
    finally:
        for other in others:
            other.join(timeout=10)
            assert not other.is_alive(), "it still waits"


LINES = ["one", "", "three thousand", "two", "five words are in this", "x"]


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_answers_are_in_the_order_of_the_lines(size: int) -> None:
    seen: list[int] = []
    prefixes = [f"{i}:" for i in range(len(LINES))]
    found = together(size, lambda t: t.translate(LINES, prefixes=prefixes, heads=None, on_progress=seen.append))
    assert [one[0].text for one in found] == [p + line for p, line in zip(prefixes, LINES, strict=True)]
    assert sum(seen) == len(LINES)


def test_what_is_drawn_for_a_line_goes_by_its_key() -> None:
    found = together(2, lambda t: t.sample(LINES, "wild", keys=range(10, 16)))
    assert [one[0].text for one in found] == [f"{line} wild {10 + i}" for i, line in enumerate(LINES)]


@pytest.mark.parametrize("lines", [["bad", "a"], ["longer", "bad", "a"]], ids=["of the leader", "of another"])
def test_an_error_of_any_of_them_is_the_leaders(lines: list[str]) -> None:
    with pytest.raises(SeqloomError, match="The line bad"):
        together(2, lambda t: t.translate(lines))
