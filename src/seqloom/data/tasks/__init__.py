"""Generated tasks for tests, teaching and experiments: any number of pairs, determined by the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from seqloom.data.tasks import dates, needles, numbers, symbols
from seqloom.errors import unknown
from seqloom.types import Example

ATTEMPTS = 200  # draws before a task counts as exhausted and sources may repeat


@dataclass(frozen=True)
class GeneratedTask:
    """Generated task."""

    name: str
    summary: str
    draw: Callable[[Random], tuple[str, str]]


TASKS: dict[str, GeneratedTask] = {
    task.name: task
    for task in (
        GeneratedTask("copy", "2 to 10 digits, unchanged", symbols.copy),
        GeneratedTask("reverse", "2 to 10 digits, in reverse order", symbols.reverse),
        GeneratedTask("sort", "2 to 10 digits, in ascending order", symbols.sort),
        GeneratedTask("addition", "123+89 to 212", symbols.addition),
        GeneratedTask(
            "recall", "a letter followed by 1 to 49 digits, to the letter", symbols.recall_near_or_far
        ),
        GeneratedTask(
            "needles", "four numbered letters among 1,000 others, in the order of their numbers", needles.draw
        ),
        GeneratedTask("dates", "written dates in seven languages, to ISO form (2024-03-05)", dates.draw),
        GeneratedTask("numbers", "numbers in English words to German words (needs num2words)", numbers.draw),
    )
}


def generate(task: str, count: int, seed: int) -> Iterator[Example]:
    """Yield `count` pairs of a task; sources are distinct until the task is exhausted."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    return _generate(TASKS[task], count, Random(seed))


def _generate(task: GeneratedTask, count: int, random: Random) -> Iterator[Example]:
    seen: set[str] = set()
    for line in range(1, count + 1):
        source, target = task.draw(random)
        for _ in range(ATTEMPTS):
            if source not in seen:
                break
            source, target = task.draw(random)
        seen.add(source)
        yield Example(source, target, line, task.name)
