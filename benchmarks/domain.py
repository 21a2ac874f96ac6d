"""Domain mismatch: short sentences (Tatoeba) and image captions (Multi30k), English to German, and fine-tuning.

    python benchmarks/domain.py --work runs/domain [--minutes 30] [--tune-minutes 5] [--seeds 1]

A model of each domain, and a model of both (half of every epoch from each), are tested on both domains. Then
the Tatoeba model continues on 500 and on 5,000 captions: on these alone, and on these mixed with as many pairs
of the old domain. BLEU is that of the test lines. The loss is that of the validation pairs of each domain under
the best checkpoint, in nats per target word, because models have their own tokenizers. The test lines of
Multi30k are its validation file; its validation pairs are the last 1,000 of its training file. Recorded runs
are skipped and interrupted ones resumed. Results are in domain.md and domain.json of the work folder.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from command import data_folder, run_command
from defaults import Rows, aligned, split
from trials import Row, run_trials, train_or_resume

from seqloom.evaluate.metrics import evaluate
from seqloom.run.config import compose
from seqloom.run.load import load_scorer

DOMAINS = ("tatoeba", "multi30k")
SIZES = (500, 5000)
LINES = 1000  # for validation and for testing
MODEL = {
    "text.tokenizer": "unigram",
    "text.vocab_size": 8000,
    "model.name": "lstm-bilinear",
    "model.width": 320,
    "model.layers": 1,
    "model.dropout": 0.2,
    "train.threads": 1,
    "train.batch_tokens": 2048,
    "train.schedule": "cosine",
    "train.label_smoothing": 0.1,
    "train.keep": 2,
    "train.metrics": "bleu",
    "train.best_by": "bleu",
    "train.validate_lines": 300,
    "train.validate_beam": 1,
    "search.beam": 5,
}


def write_tables(work: Path) -> dict[str, Path]:
    """Write training, validation and test pairs of both domains, and the small sets, unless they exist."""
    if (work / "data" / "done").exists():
        return {path.stem: path for path in (work / "data").glob("*.tsv")}
    (work / "data").mkdir(parents=True, exist_ok=True)
    data = data_folder(os.environ)
    tatoeba, held_out = split("tatoeba/eng-deu.tsv.gz", held_out=2 * LINES)(data)
    captions, valid = aligned("de")(data)
    pairs: dict[str, Rows] = {
        "tatoeba-train": tatoeba,
        "tatoeba-valid": held_out[:LINES],
        "tatoeba-test": held_out[-LINES:],
        "multi30k-train": captions[:-LINES],
        "multi30k-valid": captions[-LINES:],
        "multi30k-test": valid,
    }
    pairs |= {f"multi30k-{size}": captions[:size] for size in SIZES}
    pairs |= {f"tatoeba-{size}": tatoeba[:size] for size in SIZES}
    for name, rows in pairs.items():
        text = "".join("\t".join(row[:2]) + "\n" for row in rows)
        (work / "data" / f"{name}.tsv").write_text(text, encoding="utf-8")
    (work / "data" / "done").touch()
    return {name: work / "data" / f"{name}.tsv" for name in pairs}


def pairs_of(file: Path) -> list[tuple[str, str]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def options_of(system: str, files: dict[str, Path], start: Path) -> dict[str, Any]:
    """Return the data and start of a system: a domain, `both`, or `tuned SIZE` and `mixed SIZE`."""
    kind, _, size = system.partition(" ")
    if kind in DOMAINS:
        train, valid = [files[f"{kind}-train"]], [files[f"{kind}-valid"]]
    else:
        parts = DOMAINS if kind in ("both", "mixed") else ("multi30k",)
        train = [files[f"{domain}-{size or 'train'}"] for domain in parts]
        valid = [files[f"{domain}-valid"] for domain in parts]
    options: dict[str, Any] = {"data.train": [str(f) for f in train], "data.valid": [str(f) for f in valid]}
    if kind == "both":
        options["data.weights"] = [1, 1]
    if not size:
        return {**options, "train.learning_rate": 0.002, "train.warmup": 300, "train.checkpoint_every": 500}
    rate = {"train.learning_rate": 0.0003, "train.warmup": 50, "train.checkpoint_every": 100}
    return {**options, **rate, "train.init_from": str(start)}


def measure(
    system: str, seed: int, minutes: float, tune_minutes: float, files: dict[str, Path], work: Path
) -> Row:
    """Train a system and return BLEU and loss on both domains."""
    start = work / f"tatoeba-{minutes:g}-{seed}"
    options = {**MODEL, **options_of(system, files, start), "train.seed": seed}
    folder = work / f"{system.replace(' ', '-')}-{minutes:g}-{seed}"
    if "train.init_from" in options:
        folder, minutes = folder.with_name(f"{folder.name}-{tune_minutes:g}"), tune_minutes
    options["train.max_minutes"] = minutes
    began = time.process_time()
    translator = train_or_resume(compose(None, options), folder)
    row: Row = {"processor_seconds": round(time.process_time() - began)}
    scorer = load_scorer(folder)
    for domain in DOMAINS:
        sources, targets = zip(*pairs_of(files[f"{domain}-test"]), strict=True)
        outputs = [best[0].text for best in translator.translate(list(sources))]
        (score,) = evaluate(outputs, [[target] for target in targets], "bleu")
        scores = scorer.score(pairs_of(files[f"{domain}-valid"]))
        words = sum(len(target.split()) for _, target in pairs_of(files[f"{domain}-valid"]))
        row[domain] = {
            "bleu": [score.value, score.low, score.high],
            "loss": -sum(one.log_prob for one in scores) / words,
        }
    return row


def markdown(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table with BLEU and loss by system and domain."""
    titles = ("system", "seed", "minutes", "tuning", "processor s")
    yield f"| {' | '.join(titles)} | BLEU Tatoeba | BLEU Multi30k | loss Tatoeba | loss Multi30k |"
    yield f"|---{'|---:' * 8}|"
    for row in rows:
        bleu = ("{:.1f} [{:.1f}, {:.1f}]".format(*row[domain]["bleu"]) for domain in DOMAINS)
        loss = (f"{row[domain]['loss']:.2f}" for domain in DOMAINS)
        times = (f"{row['minutes']:g}", _tuning(row), f"{row['processor_seconds']:,}")
        cells = (row["system"], str(row["seed"]), *times, *bleu, *loss)
        yield f"| {' | '.join(cells)} |"


def _tuning(row: Row) -> str:
    return f"{row['tune_minutes']:g}" if " " in row["system"] else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for tables, runs and results")
    parser.add_argument("--minutes", type=float, default=30.0, help="training from scratch (default: 30)")
    parser.add_argument("--tune-minutes", type=float, default=5.0, help="fine-tuning (default: 5)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    arguments = parser.parse_args()
    files = write_tables(arguments.work)
    tuned = [f"{kind} {size}" for size in SIZES for kind in ("tuned", "mixed")]
    budget = {"minutes": arguments.minutes, "tune_minutes": arguments.tune_minutes}
    plan = [
        {"system": system, "seed": seed, **budget}
        for seed in arguments.seeds
        for system in (*DOMAINS, "both", *tuned)
    ]
    rows = run_trials(
        arguments.work / "domain.jsonl", plan, lambda **keys: measure(**keys, files=files, work=arguments.work)
    )
    text = "\n".join(markdown(rows)) + "\n"
    (arguments.work / "domain.md").write_text(text, encoding="utf-8")
    (arguments.work / "domain.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    run_command(main)
