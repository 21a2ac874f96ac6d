"""Summaries, style, dialogue, parsing and code: each task with its own metric and a baseline.

    python benchmarks/tasks.py --work runs/tasks [--tasks cogs django-code] [--minutes 30] [--seeds 1 2]

Every run uses the recipe of its task and one thread. The test file is decoded once, after the run is finished.
Recorded runs are skipped and interrupted ones resumed, so the command can be repeated. The results and a dozen
outputs per task are in tasks.md and tasks.json of the work folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from command import data_folder, run_command
from defaults import Rows, split, two_tables
from trials import Row, run_trials, train_or_resume

from seqloom.data.testset import read_testset
from seqloom.docstrings import make_docstrings
from seqloom.evaluate.metrics import evaluate
from seqloom.run.config import compose, read_yaml
from seqloom.training.run_log import read_metrics

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
SHOWN = 12
Pairs = Sequence[tuple[str, ...]]
Baseline = Callable[[Pairs, Sequence[str]], list[str]]


def first_sentence(train: Pairs, sources: Sequence[str]) -> list[str]:
    """Return the first sentence of each source."""
    return [re.split(r"(?<=[.!?])\s", source, maxsplit=1)[0] for source in sources]


def copied(train: Pairs, sources: Sequence[str]) -> list[str]:
    """Return each source without its tags."""
    return [re.sub(r"^(<\S+> )+", "", source) for source in sources]


def nearest(train: Pairs, sources: Sequence[str], most: int = 2000) -> list[str]:
    """Return the target of the training source that shares most words; words in more sources do not count."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(train):
        for word in set(row[0].split()):
            places[word].append(number)
    outputs = []
    for source in sources:
        found = Counter[int]()
        for word in set(source.split()):
            if len(places.get(word, ())) <= most:
                found.update(places.get(word, ()))
        # Of equally similar sources the shortest, which has the fewest other words.
        best = max(found, key=lambda n: (found[n], -len(train[n][0]))) if found else 0
        outputs.append(train[best][1])
    return outputs


@dataclass(frozen=True)
class Task:
    """Tables for training and testing, the metrics, and a baseline that needs no training."""

    tables: Callable[[Path], tuple[Rows, Rows]]
    metrics: str
    baseline: Baseline
    valid: Callable[[Path], Rows] | None = None


def docstring_rows(work: Path, part: str) -> Rows:
    """Return the pairs of a part; they are collected once."""
    folder = work / "collected"
    if not (folder / "report.json").exists():
        make_docstrings(folder, seed=1)
    lines = (folder / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines]


TASKS = {
    "docstrings": Task(
        lambda work: (docstring_rows(work, "train"), docstring_rows(work, "test")),
        "rouge1,rouge2,rougel",
        first_sentence,
        lambda work: docstring_rows(work, "valid"),
    ),
    "bible-style": Task(
        two_tables("bible-style/bbe-asv.train.tsv.gz", "bible-style/bbe-asv.dev.tsv.gz"), "bleu", copied
    ),
    "dialogue": Task(
        two_tables("dialogue/train.tsv.gz", "dialogue/dev.tsv.gz"), "bleu,distinct1,distinct2", nearest
    ),
    "cogs": Task(two_tables("cogs/train.tsv.gz", "cogs/dev.tsv.gz"), "exact", nearest),
    "django-code": Task(split("django-code/train-dev.tsv.gz"), "exact,bleu", nearest),
}


def write_tables(name: str, folder: Path, lines: int) -> dict[str, Path]:
    """Write the tables of a task with source and target, unless they exist; at most `lines` test pairs."""
    task = TASKS[name]
    files = {part: folder / f"{part}.tsv" for part in ("train", "valid")}
    files["test"] = folder / f"test-{lines}.tsv"
    if not files["test"].exists():
        folder.mkdir(parents=True, exist_ok=True)
        origin = folder if task.valid else data_folder(os.environ)
        train, test = task.tables(origin)
        chosen = sorted(Random(1).sample(range(len(test)), min(lines, len(test))))
        parts = {"train": train, "test": [test[number] for number in chosen]}
        if task.valid:
            parts["valid"] = task.valid(folder)
        for part, rows in parts.items():
            text = "".join("\t".join(row[:2]) + "\n" for row in rows)
            files[part].write_text(text, encoding="utf-8")
    return {part: file for part, file in files.items() if file.exists()}


def measure(task: str, minutes: float, seed: int, lines: int, work: Path) -> Row:
    """Train a recipe and return the scores of the model and of the baseline, and some outputs."""
    files = write_tables(task, work / task, lines)
    recipe = read_yaml(RECIPES / f"{task}.yaml")
    values = {f"{section}.{name}": value for section, every in recipe.items() for name, value in every.items()}
    values |= {f"data.{part}": str(files[part]) for part in ("train", "valid") if part in files}
    values |= {"train.max_minutes": minutes, "train.seed": seed, "train.threads": 1}
    config = compose(None, values)
    folder = work / task / f"run-{minutes:g}-{seed}"
    began = time.process_time()
    translator = train_or_resume(config, folder)
    trained = time.process_time()
    test = read_testset(config.data, [str(files["test"])])
    outputs = [best[0].text for best in translator.translate(test.sources)]
    decoded = time.process_time()
    train = [tuple(line.split("\t")) for line in files["train"].read_text(encoding="utf-8").splitlines()]
    baseline = TASKS[task].baseline(train, test.sources)
    systems = {"model": outputs, "baseline": baseline}
    scores = {
        system: {
            score.label: [score.value, score.low, score.high]
            for score in evaluate(texts, test.references, TASKS[task].metrics)
        }
        for system, texts in systems.items()
    }
    shown = Random(1).sample(range(len(outputs)), min(SHOWN, len(outputs)))
    steps = [row["step"] for row in read_metrics(folder / "metrics.jsonl") if "step" in row]
    return {
        "pairs": len(train),
        "tested": len(outputs),
        "steps": max(steps, default=0),
        "processor_seconds": round(trained - began),
        "decoding_seconds": round(decoded - trained),
        "baseline": TASKS[task].baseline.__name__.replace("_", " "),
        "scores": scores,
        "outputs": [
            {"source": test.sources[n], "reference": test.references[n][0], "output": outputs[n]} for n in shown
        ],
    }


def markdown(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of scores, then the outputs of the first seed of each task."""
    yield "| task | pairs | test lines | minutes | seed | updates | metric | model | baseline | |"
    yield "|---|---:|---:|---:|---:|---:|---|---:|---:|---|"
    for row in rows:
        for label, (value, low, high) in row["scores"]["model"].items():
            interval = "" if low is None else f" [{low:.1f}, {high:.1f}]"
            facts = f"{row['task']} | {row['pairs']:,} | {row['tested']:,} | {row['minutes']:g} | {row['seed']}"
            facts += f" | {row['steps']:,}"
            other = row["scores"]["baseline"][label][0]
            yield f"| {facts} | {label} | {value:.1f}{interval} | {other:.1f} | {row['baseline']} |"
    for row in {row["task"]: row for row in reversed(rows)}.values():
        yield f"\n## {row['task']}\n\n| source | reference | output |\n|---|---|---|"
        for one in row["outputs"]:
            cells = (one[part].replace("|", "\\|") for part in ("source", "reference", "output"))
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for tables, runs and results")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--minutes", type=float, default=30.0, help="training time of each run (default: 30)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--lines", type=int, default=2000, help="test lines at most (default: 2000)")
    arguments = parser.parse_args()
    plan = [
        {"task": task, "minutes": arguments.minutes, "seed": seed, "lines": arguments.lines}
        for task in arguments.tasks
        for seed in arguments.seeds
    ]
    rows = run_trials(
        arguments.work / "tasks.jsonl",
        plan,
        lambda **keys: measure(**keys, work=arguments.work),
    )
    text = "\n".join(markdown(rows)) + "\n"
    (arguments.work / "tasks.md").write_text(text, encoding="utf-8")
    (arguments.work / "tasks.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    run_command(main)
