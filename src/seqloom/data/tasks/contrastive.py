"""Text tasks for language models: each sentence has a wrong variant that only a distant word rules out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from seqloom.errors import SeqloomError, unknown
from seqloom.evaluate.contrast import Contrast

_NOUNS = (
    *("writer", "teacher", "doctor", "farmer", "singer", "book", "letter", "picture", "house", "garden"),
    *("car", "river", "road", "friend", "brother", "sister", "king", "tree", "dog", "horse"),
)
_PREPOSITIONS = ("of", "near", "behind", "with")
_PREDICATES = ("old", "new", "small", "big", "famous", "here", "there", "quiet", "beautiful", "lost")
_ITEMS = ("tickets", "letters", "photos", "maps", "papers", "stamps", "labels", "cards")
_FILLERS = (
    "the store was far away .",
    "it was very overpriced .",
    "the street was full of people .",
    "she bought more toner .",
    "it began to rain .",
    "a friend called her .",
    "the bus was late again .",
    "she went home .",
)
ATTEMPTS = 200  # draws before a task counts as exhausted


def agreement(random: Random) -> Contrast:
    """Draw a sentence such as "the writer of the books is old ."; the wrong one has the other verb form.

    The distance is that between subject and verb in words. The kind is `simple` (no noun between them), or
    whether the noun next to the verb has the number of the subject (`same`) or not (`attractor`).
    """
    plurals = [random.random() < 0.5 for _ in range(random.randint(1, 4))]
    nouns = [random.choice(_NOUNS) + "s" * plural for plural in plurals]
    phrase = f"the {nouns[0]}" + "".join(f" {random.choice(_PREPOSITIONS)} the {noun}" for noun in nouns[1:])
    right, wrong = ("are", "is") if plurals[0] else ("is", "are")
    predicate = random.choice(_PREDICATES)
    kind = "simple" if len(nouns) == 1 else "same" if plurals[-1] == plurals[0] else "attractor"
    return Contrast(
        f"{phrase} {right} {predicate} .", f"{phrase} {wrong} {predicate} .", "", kind, len(phrase.split()) - 1
    )


def tickets(random: Random) -> Contrast:
    """Draw a story that ends with the word that it began with; the wrong one ends with another word.

    The distance is that between the two words.
    """
    item, other = random.sample(_ITEMS, 2)
    fillers = random.choices(_FILLERS, k=random.randint(0, 8))
    story = " ".join((f"she tried to print her {item} .", *fillers, "finally she printed her"))
    distance = len(story.split()) - story.split().index(item)
    return Contrast(f"{story} {item} .", f"{story} {other} .", "", "recall", distance)


@dataclass(frozen=True)
class ContrastiveTask:
    """Generated text with contrasts."""

    name: str
    summary: str
    draw: Callable[[Random], Contrast]


CONTRASTIVE_TASKS: dict[str, ContrastiveTask] = {
    task.name: task
    for task in (
        ContrastiveTask(
            "agreement", "sentences whose verb agrees with a subject up to ten words away", agreement
        ),
        ContrastiveTask("tickets", "stories that end with a word of their first sentence", tickets),
    )
}


def generate_contrasts(task: str, count: int, seed: int) -> Iterator[Contrast]:
    """Yield `count` distinct sentences of a task, each with its wrong variant."""
    if task not in CONTRASTIVE_TASKS:
        raise unknown("task", task, CONTRASTIVE_TASKS)
    return _generate(CONTRASTIVE_TASKS[task], count, Random(seed))


def _generate(task: ContrastiveTask, count: int, random: Random) -> Iterator[Contrast]:
    seen: set[str] = set()
    for _ in range(count):
        drawn = next((one for _ in range(ATTEMPTS) if (one := task.draw(random)).right not in seen), None)
        if drawn is None:
            raise SeqloomError(
                f"The task {task.name} has only about {len(seen):,} different sentences.", "lower --count"
            )
        seen.add(drawn.right)
        yield drawn
