"""How many bad lines `seqloom data clean` finds, and how many good ones it loses.

    python benchmarks/cleaning.py --work cleaning-work [--corpora multi30k-fr tatoeba-fra] [--model-minutes 10]

Takes real pairs in random order and spoils some of them with a fixed seed. Two kinds are misaligned, half of
--share each: `shuffled` has the target of another spoiled line, `similar length` that of the spoiled line next
in length. Three more kinds, 1 % of the lines each: `copied` (the target is the source), `cut` (the target has
only the first half of its words) and `repeated` (the good pair before it, in capital letters). Runs the command
with its default rules and with all rules, and prints the share of the lines of every kind that it dropped. With
--model-minutes, trains a run of size tiny on the spoiled file and also measures the rule `model` alone.

docs/reference/results.md states on which corpora the limits of the rules were chosen.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from command import data_folder, run_command

from seqloom import SeqloomError

Pair = tuple[str, str]

CORPORA = {
    "tatoeba-deu": ("tatoeba/eng-deu.tsv.gz",),
    "tatoeba-fra": ("tatoeba/eng-fra.tsv.gz",),
    "multi30k-de": ("multi30k/train.en.gz", "multi30k/train.de.gz"),
    "multi30k-fr": ("multi30k/train.en.gz", "multi30k/train.fr.gz"),
}
GOOD = "good"
MISALIGNED = ("shuffled", "similar length")
OTHERS = ("copied", "cut", "repeated")
OTHER_SHARE = 0.01
TRAINING = {"model.size": "tiny", "text.vocab_size": 4000, "train.batch_tokens": 1000, "train.threads": 1}


class Spoiled(NamedTuple):
    """Pairs and the kind of each line."""

    pairs: list[Pair]
    kinds: list[str]


class Measurement(NamedTuple):
    """What one run of the command dropped."""

    corpus: str
    rules: str
    lines: int
    found: dict[str, float]  # share of the lines of every kind
    good_by_rule: dict[str, int]
    seconds: float


def read_pairs(folder: Path, files: Sequence[str]) -> list[Pair]:
    """Return the pairs of a corpus: of a table, or of two aligned files."""
    for name in files:
        if not (folder / name).is_file():
            raise SeqloomError(
                f"{name} not found in {folder}.", "set SEQLOOM_DATA to the folder that contains it"
            )
    columns = []
    for name in files:
        with gzip.open(folder / name, "rt", encoding="utf-8", newline="\n") as file:
            columns.append([line.rstrip("\n") for line in file])
    if len(columns) == 2:
        return list(zip(*columns, strict=True))
    rows = (line.split("\t") for line in columns[0])
    return [(row[0], row[1]) for row in rows]


def spoil(pairs: Sequence[Pair], share: float, random: Random) -> Spoiled:
    """Return the pairs in random order, with a share of misaligned lines and some of each other kind."""
    order = random.sample(list(pairs), len(pairs))
    counts = [round(share * len(pairs) / 2)] * 2 + [round(OTHER_SHARE * len(pairs))] * len(OTHERS)
    places = iter(random.sample(range(1, len(pairs)), sum(counts)))
    chosen = {
        kind: [next(places) for _ in range(count)]
        for kind, count in zip((*MISALIGNED, *OTHERS), counts, strict=True)
    }
    chosen["similar length"].sort(key=lambda place: len(order[place][1]))
    spoiled, kinds = list(order), [GOOD] * len(order)
    for kind, lines in chosen.items():
        for place in lines:
            kinds[place] = kind
    for kind, lines in chosen.items():
        for place, following in zip(lines, [*lines[1:], *lines[:1]], strict=True):
            earlier = next(i for i in range(place, -1, -1) if kinds[i] == GOOD)
            spoiled[place] = _spoiled_pair(kind, order[place], order[following], order[earlier])
    return Spoiled(spoiled, kinds)


def _spoiled_pair(kind: str, pair: Pair, following: Pair, earlier: Pair) -> Pair:
    source, target = pair
    match kind:
        case "copied":
            return source, source
        case "cut":
            words = target.split(" ")
            return source, " ".join(words[: max(1, len(words) // 2)])
        case "repeated":
            return earlier[0].upper(), earlier[1].upper()
        case _:
            return source, following[1]


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs as JSON lines, which hold any text."""
    with path.open("w", encoding="utf-8") as file:
        for source, target in pairs:
            file.write(json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n")


def run_seqloom(*arguments: str) -> None:
    """Run a command; raise an error if it fails."""
    done = subprocess.run([sys.executable, "-m", "seqloom", *arguments], stdout=subprocess.DEVNULL)
    if done.returncode:
        raise SeqloomError(f"seqloom {' '.join(arguments[:3])} failed.", "see its message above")


def measure(corpus: str, file: Path, kinds: Sequence[str], name: str, options: Sequence[str]) -> Measurement:
    """Clean a file and compare the lines that were dropped with those that were spoiled."""
    out = file.with_name(f"{file.stem}.clean.jsonl")
    began = time.perf_counter()
    run_seqloom("data", "clean", str(file), "--out", str(out), "--json", *options)
    seconds = time.perf_counter() - began
    dropped = read_report(out.with_name(f"{out.name}.dropped.tsv"))
    totals, found = Counter(kinds), Counter(kinds[line - 1] for line in dropped)
    good = Counter(rule for line, rule in dropped.items() if kinds[line - 1] == GOOD)
    shares = {kind: found[kind] / totals[kind] for kind in (GOOD, *MISALIGNED, *OTHERS)}
    return Measurement(corpus, name, len(kinds), shares, dict(good.most_common()), seconds)


def read_report(path: Path) -> dict[int, str]:
    """Return the rule that dropped each line."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {int(row["line"]): row["rule"] for row in rows}


def train(file: Path, minutes: float) -> Path:
    """Train a small run on the spoiled pairs; return its folder."""
    run = file.with_suffix(".run")
    if not run.exists():
        options = {**TRAINING, "train.max_minutes": minutes, "train.max_epochs": 1000}
        settings = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
        run_seqloom("train", str(file), "--out", str(run), *settings)
    return run


def table(results: Sequence[Measurement]) -> str:
    """Return a table in Markdown, in percent."""
    head = ["corpus", "lines", "rules", *MISALIGNED, *OTHERS, "good lines lost", "seconds"]
    rows = [head, ["---"] * len(head)]
    for one in results:
        found = [f"{100 * one.found[kind]:.1f}" for kind in (*MISALIGNED, *OTHERS)]
        by_rule = ", ".join(f"{rule} {count:,}" for rule, count in one.good_by_rule.items())
        lost = f"{100 * one.found[GOOD]:.2f} ({by_rule})"
        rows.append([one.corpus, f"{one.lines:,}", one.rules, *found, lost, f"{one.seconds:.0f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def measure_corpus(name: str, options: argparse.Namespace, environment: Mapping[str, str]) -> list[Measurement]:
    """Spoil a corpus and clean it with each selection of rules."""
    random = Random(options.seed)
    pairs = read_pairs(data_folder(environment), CORPORA[name])
    if options.lines:
        pairs = random.sample(pairs, min(options.lines, len(pairs)))
    spoiled = spoil(pairs, options.share, random)
    file = options.work / f"{name}.jsonl"
    write_pairs(file, spoiled.pairs)
    threads = ("--threads", str(options.threads))
    selections: dict[str, tuple[str, ...]] = {"default": threads, "all": ("--rules", "all", *threads)}
    if options.model_minutes:
        run = train(file, options.model_minutes)
        selections["model"] = ("--rules", "model", "--model", str(run))
    return [measure(name, file, spoiled.kinds, rules, given) for rules, given in selections.items()]


def main() -> None:
    """Measure every corpus and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for files")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--lines", type=int, default=0, help="pairs of each corpus (default: all)")
    parser.add_argument("--share", type=float, default=0.05, help="share of misaligned lines")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model-minutes", type=float, default=0, help="train a run and measure the rule model")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results = []
    for name in options.corpora:
        results += measure_corpus(name, options, os.environ)
        print(table(results[-1:]), file=sys.stderr)
    date = datetime.datetime.now().astimezone().date()
    print(f"{date}, {options.share:.0%} misaligned, seed {options.seed}; dropped lines in percent\n")
    print(table(results))


if __name__ == "__main__":
    run_command(main)
