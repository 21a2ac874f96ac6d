"""Pre-training on text when pairs are few: 2,000 pairs and 29,000 sentences of each language.

    python benchmarks/pretraining.py --data ../shared/data/multi30k/tokenised --work runs/pretraining

Five runs on Multi30k: a masked and a denoising model on the text of both languages (without using that the
lines are translations), and three translation models on the same pairs, initialised with random weights, with
the masked encoder, or with both sides of the denoising model. Checkpoints are selected by BLEU on the
validation file; the test file is decoded once per run. Finished runs are kept and interrupted runs are resumed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from command import run_command

from seqloom.evaluate.metrics import evaluate, parse_metrics
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.load import load
from seqloom.run.train import continue_run, create

MODEL = {"model.width": 128, "model.layers": 3, "model.heads": 4, "model.ffn": 512, "model.dropout": 0.3}
TRAIN = {"train.schedule": "cosine", "train.threads": 1, "train.batch_tokens": 3000, "train.ema": 0.99}
TEXT = {"text.tokenizer": "bpe", "text.vocab_size": 6000}
PRETRAIN = {"train.learning_rate": 0.003, "train.checkpoint_every": 500}
MASKED, DENOISING = {"train.max_steps": 2500}, {"train.max_steps": 1500}  # about the same time
TUNE = {
    "train.max_steps": 800,
    "train.learning_rate": 0.002,
    "train.warmup": 200,
    "train.checkpoint_every": 100,
    "train.metrics": "bleu:none",
    "train.best_by": "bleu:none",
    "train.validate_lines": 500,
    "search.beam": 1,
}
PAIRS = 2000


def train_or_resume(work: Path, name: str, options: dict[str, Any]) -> Path:
    """Train the named run, or resume it if it is not finished, and return its folder."""
    folder = work / name
    run = Run.open(folder) if folder.exists() else create(compose(None, options), folder)
    if not continue_run(run).finished:
        sys.exit(f"Stopped. Repeat the command to resume {folder}.")
    return folder


def lines(file: Path, count: int | None = None) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        return [line.rstrip("\n") for line in islice(stream, count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the tokenised Multi30k files")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    parts = {
        (part, language): arguments.data / f"{part}.lc.norm.tok.{language}.gz"
        for part in ("train", "val", "test_2016_flickr")
        for language in ("en", "de")
    }
    table = work / "pairs.tsv"
    pairs = zip(lines(parts["train", "en"], PAIRS), lines(parts["train", "de"], PAIRS), strict=True)
    table.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    text = {"data.train": [str(parts["train", "en"]), str(parts["train", "de"])], **MODEL, **TRAIN, **TEXT}
    given = {
        "data.train": str(table),
        "data.valid_source": str(parts["val", "en"]),
        "data.valid_target": str(parts["val", "de"]),
        **MODEL,
        **TRAIN,
        **TUNE,
    }
    text |= {**PRETRAIN, "model.dropout": 0.1}
    masked = train_or_resume(work, "masked", {**text, **MASKED, "model.name": "mlm"})
    # A smaller vocabulary for the 2,000 pairs: otherwise most pieces would have only a few examples.
    runs = {"none": train_or_resume(work, "from-none", {**given, **TEXT, "text.vocab_size": 3000})}
    runs["masked encoder"] = train_or_resume(work, "from-masked", {**given, "train.init_from": str(masked)})
    noise = {"data.noise.kind": "infill", "data.noise.share": 0.26}
    denoising = train_or_resume(work, "denoising", {**text, **DENOISING, **noise})
    runs["denoising, both sides"] = train_or_resume(
        work, "from-denoising", {**given, "train.init_from": str(denoising)}
    )
    sources, references = lines(parts["test_2016_flickr", "en"]), lines(parts["test_2016_flickr", "de"])
    results = {}
    for name, run in runs.items():
        outputs = [best[0].text for best in load(run).translate(sources, beam=5)]
        score = evaluate(outputs, [[line] for line in references], parse_metrics("bleu:none"))[0]
        results[name] = {"bleu": score.value, "low": score.low, "high": score.high}
        print(f"{name:<24}{score.value:6.1f}  [{score.low:.1f}, {score.high:.1f}]", flush=True)
    (work / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
