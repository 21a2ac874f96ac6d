"""Training techniques one by one: a baseline, and the baseline with one option changed, under equal updates.

    python benchmarks/techniques.py --train pairs.tsv --test test.tsv --records rows.jsonl --runs runs/each

With --inflection both tables have the columns lemma, form and tags (V;PST), and sources begin with the tags:
<V> <PST> lemma. Recorded trials are skipped, so an interrupted command can be repeated.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from command import run_command
from trials import Row, bar_figure, run_trials, train_or_resume, trial_parser

from seqloom import SeqloomError
from seqloom.data.testset import read_testset
from seqloom.evaluate.metrics import evaluate
from seqloom.files import write_atomically
from seqloom.inspect.picture import save_figure
from seqloom.run.config import Config, assigned, compose

BASELINE: Mapping[str, Any] = {
    "model.size": "tiny",
    "model.dropout": 0.3,
    "text.tokenizer": "char",
    "train.batch_tokens": 800,
    "train.learning_rate": 0.003,
    "train.schedule": "cosine",
    "train.warmup": 200,
    "train.checkpoint_every": 100,
    "train.keep": 5,
    "train.threads": 1,
}
SUBWORDS: Mapping[str, Any] = {"text.vocab_size": 500}
# Options that differ from the baseline. Sampling needs subwords, so each kind of subword is a row of its own.
TECHNIQUES: Mapping[str, Mapping[str, Any]] = {
    "baseline": {},
    "word dropout": {"train.word_dropout": 0.1},
    "R-Drop": {"train.rdrop": 5.0},
    "tags without position": {"model.tag_positions": False},
    "no label smoothing": {"train.label_smoothing": 0.0},
    "EMA": {"train.ema": 0.99},
    "average of 5 checkpoints": {"train.average": 5},
    "transformer-fast": {"model.name": "transformer-fast"},
    "unigram": {**SUBWORDS, "text.tokenizer": "unigram"},
    "unigram, sampled source": {**SUBWORDS, "text.tokenizer": "unigram", "text.sampling": "source"},
    "unigram, sampled": {**SUBWORDS, "text.tokenizer": "unigram", "text.sampling": "both"},
    "bpe": {**SUBWORDS, "text.tokenizer": "bpe"},
    "bpe, dropout": {**SUBWORDS, "text.tokenizer": "bpe", "text.sampling": "both"},
}


def with_tags(table: Path, out: Path) -> Path:
    """Write a table of tagged lemmas and forms for one with the columns lemma, form and tags."""
    opener = gzip.open if table.suffix == ".gz" else open
    with opener(table, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    if wrong := [number for number, row in enumerate(rows, 1) if len(row) != 3]:
        raise SeqloomError(
            f"{table}, line {wrong[0]}: expected the columns lemma, form and tags.", "leave out --inflection"
        )
    lines = (
        f"{' '.join(f'<{tag}>' for tag in tags.split(';'))} {lemma}\t{form}\n" for lemma, form, tags in rows
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, "".join(lines))
    return out


def configure(train: Path, technique: str, seed: int, steps: int, assignments: Sequence[str] = ()) -> Config:
    """Return the config of one run: the baseline with one technique."""
    chosen = {**BASELINE, **dict(assigned(assignments)), **TECHNIQUES[technique]}
    return compose(values={**chosen, "data.train": str(train), "train.seed": seed, "train.max_steps": steps})


def measure(config: Config, folder: Path, test: Path, metric: str) -> Row:
    """Train, decode the test table once, and return its score and the processor time of both."""
    began = time.process_time()
    translator = train_or_resume(config, folder)
    trained = time.process_time()
    testset = read_testset(config.data, [str(test)])
    outputs = [best[0].text for best in translator.translate(testset.sources)]
    decoded = time.process_time()
    score = evaluate(outputs, testset.references, metric)[0]
    return {
        "score": score.value,
        "low": score.low,
        "high": score.high,
        "training_seconds": round(trained - began),
        "decoding_seconds": round(decoded - trained, 1),
    }


def summarise(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return the means over seeds by technique, in the order of the table."""
    columns = ("score", "low", "high", "training_seconds", "decoding_seconds")
    found = {}
    for name in TECHNIQUES:
        if mine := [row for row in rows if row["technique"] == name]:
            found[name] = {column: statistics.mean(row[column] for row in mine) for column in columns}
            found[name]["seeds"] = len(mine)
    return found


def table(rows: Sequence[Row], metric: str) -> str:
    """Return a Markdown table with one row per technique."""
    lines = [
        f"| technique | options | {metric}, mean | 95 % interval, mean | seeds | training, s | decoding, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, mean in summarise(rows).items():
        options = " ".join(f"`{option}={_yaml(value)}`" for option, value in TECHNIQUES[name].items())
        lines.append(
            f"| {name} | {options} | {mean['score']:.1f} | [{mean['low']:.1f}, {mean['high']:.1f}] "
            f"| {mean['seeds']} | {mean['training_seconds']:.0f} | {mean['decoding_seconds']:.1f} |"
        )
    return "\n".join(lines)


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse() -> argparse.Namespace:
    parser = trial_parser(__doc__)
    parser.add_argument("--train", type=Path, required=True, help="table of training pairs")
    parser.add_argument("--test", type=Path, required=True, help="table of pairs to decode after training")
    parser.add_argument("--inflection", action="store_true", help="the columns are lemma, form and tags")
    parser.add_argument("--techniques", nargs="+", choices=TECHNIQUES, metavar="NAME", help="default: all")
    parser.add_argument("--steps", type=int, default=1000, help="number of updates (default: 1000)")
    parser.add_argument("--metric", default="exact", help="metric of the table (default: exact)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the baseline")
    return parser.parse_args()


def main() -> None:
    options = parse()
    train, test = options.train, options.test
    if options.inflection:
        train, test = (
            with_tags(file, options.runs / f"{name}.tsv") for name, file in (("train", train), ("test", test))
        )
    tagged = options.inflection or "tags without position" in (options.techniques or ())
    names = options.techniques or [name for name in TECHNIQUES if tagged or "tag" not in name]

    def trial(technique: str, seed: int) -> Row:
        config = configure(train, technique, seed, options.steps, options.set)
        return measure(config, options.runs / f"{technique}-{seed}".replace(" ", "-"), test, options.metric)

    plan = [{"technique": name, "seed": seed} for seed, name in product(options.seeds, names)]
    rows = run_trials(options.records, plan, trial)
    print(table(rows, options.metric))
    if options.out:
        bars = {
            name: {"": [mean["score"], mean["low"], mean["high"]]} for name, mean in summarise(rows).items()
        }
        title = "Training techniques"
        figure = bar_figure(bars, label=options.metric, group="", title=title, width=12, style=options.style)
        save_figure(figure, options.out)


if __name__ == "__main__":
    run_command(main)
