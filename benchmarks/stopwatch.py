"""Times a translator, in a process of its own. Runs in a peer's Python: nothing but the standard library.

    PYTHON driver.py TASK.json RESULT.json

A driver hands `run` a function that loads its translator. The task has the lines, the beams, how many lines go
one by one, and the options of the driver; the result has seconds and answers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Translate = Callable[[list[str], int], list[str]]  # lines and beam to answers in the same order

_BEGAN = time.perf_counter()  # the drivers import what they need later, while loading
_WARMUP = 64  # lines that are translated before the clock starts


def run(load: Callable[[dict[str, Any]], Translate]) -> None:
    """Does the task that the command line names and writes its result."""
    task_file, result_file = sys.argv[1:]
    with open(task_file, encoding="utf-8") as file:
        task = json.load(file)
    lines, beams = task["lines"], task["beams"]
    translate = load(task["options"])
    translate(lines[:1], beams[0])
    first = time.perf_counter() - _BEGAN
    searches = {str(beam): _timed(translate, lines, beam, single=task["single"]) for beam in beams}
    with open(result_file, "w", encoding="utf-8") as file:
        json.dump({"start_to_first_answer": first, "searches": searches}, file)


def _timed(translate: Translate, lines: list[str], beam: int, *, single: int) -> dict[str, Any]:
    """All lines at once, then the first ones alone."""
    translate(lines[:_WARMUP], beam)
    began = time.perf_counter()
    answers = translate(lines, beam)
    seconds = time.perf_counter() - began
    latencies = []
    for line in lines[:single]:
        began = time.perf_counter()
        translate([line], beam)
        latencies.append(time.perf_counter() - began)
    return {"seconds": seconds, "latencies": latencies, "answers": answers}
