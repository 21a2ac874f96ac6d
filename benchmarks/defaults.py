"""Quality of `seqloom train` without options: the planner against constants, under equal minutes.

    python benchmarks/defaults.py --data data --work runs/defaults [--sets german-high scan] [--minutes 10]

Every data set is split once into a training and a development table in the work folder; the development table
is never used for training or for the selection of checkpoints. The planner sees the training table only. The
constants (`--plan fixed`) get the columns, because they do not choose them. Finished trials are skipped and
interrupted runs are resumed. The table shows means over seeds.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean

from command import run_command
from trials import Row, run_trials, train_or_resume

from seqloom.data.column_roles import column_roles
from seqloom.data.tables import first_cells
from seqloom.data.testset import read_testset
from seqloom.evaluate.metrics import evaluate, parse_metrics
from seqloom.run.config import option_tree
from seqloom.run.planner.plan import compose_with_plan, plan_mode

Rows = list[tuple[str, ...]]
MODES = ("auto", "fixed")


@dataclass(frozen=True)
class DataSet:
    """Pairs for training and development, and the metric of the task."""

    tables: Callable[[Path], tuple[Rows, Rows]]
    metric: str
    seeds: int = 3
    grouped: bool = False  # several references of a source are in rows of their own


def rows(file: Path) -> Rows:
    """Return the rows of a gzipped TSV file."""
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        return [tuple(line.rstrip("\n").split("\t")) for line in stream]


def two_tables(train: str, dev: str) -> Callable[[Path], tuple[Rows, Rows]]:
    """Read a training and a development table."""
    return lambda data: (rows(data / train), rows(data / dev))


def split(table: str, pairs: int | None = None, held_out: int = 1000) -> Callable[[Path], tuple[Rows, Rows]]:
    """Shuffle a table by source, and hold out the last sources; `pairs` limits the training part."""

    def read(data: Path) -> tuple[Rows, Rows]:
        by_source: dict[str, Rows] = {}
        for row in rows(data / table):
            by_source.setdefault(row[0], []).append(row)
        sources = list(by_source)
        random.Random(1).shuffle(sources)
        dev = [row for source in sources[-held_out:] for row in by_source[source]]
        train = [row for source in sources[:-held_out] for row in by_source[source]]
        return train[:pairs], dev

    return read


def aligned(language: str) -> Callable[[Path], tuple[Rows, Rows]]:
    """Read the aligned files of Multi30k."""

    def pairs(data: Path, part: str) -> Iterator[tuple[str, ...]]:
        sides = (rows(data / "multi30k" / f"{part}.{side}.gz") for side in ("en", language))
        return (source + target for source, target in zip(*sides, strict=True))

    return lambda data: (list(pairs(data, "train")), list(pairs(data, "val")))


def inflection(language: str, size: str) -> DataSet:
    """Return a data set of lemmas, forms and tags."""
    train, dev = (f"inflection/{language}-{part}.tsv.gz" for part in (f"train-{size}", "dev"))
    return DataSet(two_tables(train, dev), "exact")


SETS = {
    "multi30k-de": DataSet(aligned("de"), "bleu", seeds=1),
    "multi30k-fr": DataSet(aligned("fr"), "bleu", seeds=1),
    "tatoeba-10k": DataSet(split("tatoeba/eng-deu.tsv.gz", 10_000), "bleu", grouped=True),
    "tatoeba-160k": DataSet(split("tatoeba/eng-deu.tsv.gz", 160_000), "bleu", seeds=1, grouped=True),
    "cmudict": DataSet(two_tables("cmudict/train.tsv.gz", "cmudict/dev.tsv.gz"), "per", seeds=1, grouped=True),
    **{
        f"{language}-{size}": inflection(language, size)
        for language, size in product(("german", "finnish", "turkish"), ("medium", "high"))
    },
    "scan": DataSet(split("scan/train_simple.tsv.gz"), "exact"),
    "cogs": DataSet(two_tables("cogs/train.tsv.gz", "cogs/dev.tsv.gz"), "exact", seeds=1),
    "bible": DataSet(
        two_tables("bible-style/bbe-asv.train.tsv.gz", "bible-style/bbe-asv.dev.tsv.gz"), "bleu", seeds=1
    ),
    "django": DataSet(split("django-code/train-dev.tsv.gz"), "exact", seeds=1),
}


def write_tables(name: str, data: Path, work: Path) -> tuple[Path, Path]:
    """Write the tables of a data set, unless they exist."""
    folder = work / name
    files = folder / "train.tsv", folder / "dev.tsv"
    if not files[1].exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file, table in zip(files, SETS[name].tables(data), strict=True):
            file.write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")
    return files


def columns(file: Path) -> dict[str, str]:
    """Return the column options of a table with more than two columns, which the constants need."""
    roles = column_roles(first_cells(str(file), "tsv", 2000))
    if roles is None:
        return {}
    named = {"data.source_column": str(roles.source), "data.target_column": str(roles.target)}
    return named if roles.tags is None else {**named, "data.tags_column": str(roles.tags)}


def measure(name: str, mode: str, seed: int, minutes: float, arguments: argparse.Namespace) -> Row:
    """Train with one mode and return the score on the development table."""
    train, dev = write_tables(name, arguments.data, arguments.work)
    values = {"data.train": str(train), "train.seed": seed, "train.threads": arguments.threads}
    if mode == "fixed":
        values.update(columns(train))
    folder = arguments.work / name / f"{mode}-{seed}-{minutes:g}"
    tree = option_tree(None, values)
    config, plan = compose_with_plan(tree, plan_mode(mode, None), minutes=minutes)
    translator = train_or_resume(config, folder)
    testset = read_testset(config.data, [str(dev)], group_by_source=SETS[name].grouped)
    outputs = [found[0].text for found in translator.translate(testset.sources)]
    (score,) = evaluate(outputs, testset.references, parse_metrics(SETS[name].metric))
    chosen = {} if plan is None else {choice.option: choice.value for choice in plan.choices}
    return {"score": score.value, "low": score.low, "high": score.high, "options": chosen}


def table(found: Sequence[Row]) -> Iterator[str]:
    """Yield a line per data set with the mean score of each mode."""
    yield f"{'data set':<16}{'metric':<8}{'minutes':>8}{'planner':>10}{'constants':>11}{'seeds':>7}"
    for name, minutes in dict.fromkeys((row["name"], row["minutes"]) for row in found):
        mine = [row for row in found if (row["name"], row["minutes"]) == (name, minutes)]
        scores = {mode: [row["score"] for row in mine if row["mode"] == mode] for mode in MODES}
        cells = (f"{mean(values):.1f}" if values else "-" for values in scores.values())
        auto, fixed = cells
        seeds = min(len(values) for values in scores.values())
        yield f"{name:<16}{SETS[name].metric:<8}{minutes:>8g}{auto:>10}{fixed:>11}{seeds:>7}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--work", type=Path, required=True, help="folder for tables, runs and records")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--minutes", type=float, default=10.0, help="budget of each run (default: 10)")
    parser.add_argument("--seeds", type=int, help="number of seeds (default: 3 for small data sets, else 1)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: 1)")
    arguments = parser.parse_args()
    plan = [
        {"name": name, "mode": mode, "seed": seed, "minutes": arguments.minutes}
        for name in arguments.sets
        for seed in range(1, (arguments.seeds or SETS[name].seeds) + 1)
        for mode in arguments.modes
    ]
    found = run_trials(
        arguments.work / "defaults.jsonl", plan, lambda **keys: measure(**keys, arguments=arguments)
    )
    print("\n".join(table(found)))


if __name__ == "__main__":
    run_command(main)
