"""Several processes that translate together: lines are dealt out, and the answers come back in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from seqloom.errors import SeqloomError
from seqloom.team import Team
from seqloom.types import Hypothesis

Answers = list[list[Hypothesis]]
_BY_LINE = ("heads", "prefixes", "required", "keys")  # options that hold a value for every line


class _Task(NamedTuple):
    method: str
    lines: Sequence[str]
    given: tuple[Any, ...]
    options: dict[str, Any]

    def share(self, places: Sequence[int]) -> _Task:
        """The same for some of the lines."""
        options = {
            name: [value[i] for i in places] if name in _BY_LINE and value is not None else value
            for name, value in self.options.items()
        }
        return self._replace(lines=[self.lines[i] for i in places], options=options)

    def done(self, translator: Any) -> Answers | SeqloomError:
        """The answers, or why there are none: the others have to hear of it."""
        if not self.lines:
            return []
        try:
            answers: Answers = getattr(translator, self.method)(self.lines, *self.given, **self.options)
        except SeqloomError as error:
            return error
        return answers


class CrewTranslator:
    """A translator that deals its lines out to a team, which the others serve in; all else is the translator's.

    The answer for a line does not depend on the lines beside it, so it is the one that a single process gives.
    """

    def __init__(self, translator: Any, team: Team) -> None:
        self._translator, self._team = translator, team

    def __getattr__(self, name: str) -> Any:
        return getattr(self._translator, name)

    def translate(
        self, lines: Sequence[str], *, on_progress: Callable[[int], None] | None = None, **options: Any
    ) -> Answers:
        """The n best hypotheses of every line, in order."""
        return self._dealt(_Task("translate", lines, (), options), on_progress)

    def sample(
        self,
        lines: Sequence[str],
        sampling: Any,
        *,
        on_progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> Answers:
        """Answers drawn for every line, in order."""
        return self._dealt(_Task("sample", lines, (sampling,), options), on_progress)

    def _dealt(self, task: _Task, on_progress: Callable[[int], None] | None) -> Answers:
        self._team.told(task)
        dealt = shares(task.lines, self._team.size)
        own = task.share(dealt[0])
        if on_progress:
            own.options["on_progress"] = on_progress
        answers: Answers = [[]] * len(task.lines)
        for places, found in zip(dealt, self._team.gathered(own.done(self._translator)), strict=True):
            if isinstance(found, SeqloomError):
                raise found
            for place, hypotheses in zip(places, found, strict=True):
                answers[place] = hypotheses
        if on_progress:
            on_progress(len(task.lines) - len(dealt[0]))
        return answers


def shares(lines: Sequence[str], size: int) -> list[list[int]]:
    """The places of the lines of each process: by length in turn, so that all have the same to do."""
    order = sorted(range(len(lines)), key=lambda place: -len(lines[place]))
    return [order[rank::size] for rank in range(size)]


@contextmanager
def crew(translator: Any, team: Team) -> Iterator[Any]:
    """The leader's translator, to which the others lend a hand; for them it is None when all is done."""
    if team.size == 1:
        yield translator
    elif team.leads:
        try:
            yield CrewTranslator(translator, team)
        finally:
            team.told(None)
    else:
        task: _Task | None = None
        while (task := team.told(task)) is not None:
            share = task.share(shares(task.lines, team.size)[team.rank])
            team.gathered(share.done(translator))
        yield None
