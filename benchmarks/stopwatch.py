"""Time a translator in its own process. Uses only the standard library, as other toolkits import it.

    PYTHON driver.py TASK.json RESULT.json

A driver passes `run` a function that loads its translator. The task contains the lines, the beam sizes, the
number of lines to translate one at a time, and the options of the driver; the result contains times and
outputs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Translate = Callable[[list[str], int], list[str]]  # (lines, beam size) to outputs in the same order

_BEGAN = time.perf_counter()  # drivers import their toolkit later, in load()
_WARMUP = 64  # lines translated before timing starts


def run(load: Callable[[dict[str, Any]], Translate]) -> None:
    """Run the task given on the command line and write its result."""
    task_file, result_file = sys.argv[1:]
    with open(task_file, encoding="utf-8") as file:
        task = json.load(file)
    lines, beams = task["lines"], task["beams"]
    translate = load(task["options"])
    translate(lines[:1], beams[0])
    first = time.perf_counter() - _BEGAN
    searches = {str(beam): _timed(translate, lines, beam, single=task["single"]) for beam in beams}
    with open(result_file, "w", encoding="utf-8") as file:
        json.dump({"start_to_first_output": first, "searches": searches}, file)


def _timed(translate: Translate, lines: list[str], beam: int, *, single: int) -> dict[str, Any]:
    """Time all lines in batches, then the first lines one at a time."""
    translate(lines[:_WARMUP], beam)
    began = time.perf_counter()
    outputs = translate(lines, beam)
    seconds = time.perf_counter() - began
    latencies = []
    for line in lines[:single]:
        began = time.perf_counter()
        translate([line], beam)
        latencies.append(time.perf_counter() - began)
    return {"seconds": seconds, "latencies": latencies, "outputs": outputs}
