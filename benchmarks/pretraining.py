"""What pre-training on text brings when pairs are few: 2,000 pairs and 29,000 sentences of each language.

    python benchmarks/pretraining.py --data ../shared/data/multi30k/tokenised --work runs/pretraining

Five runs on Multi30k: a masked and a denoising one on the text of both languages (which are not told to be
translations of each other), and three translation runs on the same pairs: from random weights, from the masked
encoder, from both denoising sides. The checkpoint is chosen by BLEU on the validation file, the test file is
decoded once per run. What is done already is not done again, and an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from seqloom.config import compose
from seqloom.evaluate.metrics import evaluate, parse_metrics
from seqloom.loading import load
from seqloom.pipeline import continue_run, create
from seqloom.run import Run

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


def trained(work: Path, name: str, options: dict[str, Any]) -> Path:
    """The run of that name, made or gone on with if it is not finished."""
    folder = work / name
    run = Run.open(folder) if folder.exists() else create(compose(None, options), folder)
    if not continue_run(run).finished:
        sys.exit(f"stopped; the same command goes on with {folder}")
    return folder


def lines(file: Path, count: int | None = None) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        return [line.rstrip("\n") for line in islice(stream, count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the tokenised Multi30k files")
    parser.add_argument("--work", type=Path, required=True, help="where the runs go")
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
    masked = trained(work, "masked", {**text, **MASKED, "model.name": "mlm"})
    # Pairs alone have fewer pieces; more would be learned from a handful of examples each.
    runs = {"none": trained(work, "from-none", {**given, **TEXT, "text.vocab_size": 3000})}
    runs["masked encoder"] = trained(work, "from-masked", {**given, "train.init_from": str(masked)})
    noise = {"data.noise.kind": "infill", "data.noise.share": 0.26}
    denoising = trained(work, "denoising", {**text, **DENOISING, **noise})
    runs["denoising, both sides"] = trained(
        work, "from-denoising", {**given, "train.init_from": str(denoising)}
    )
    sources, references = lines(parts["test_2016_flickr", "en"]), lines(parts["test_2016_flickr", "de"])
    results = {}
    for name, run in runs.items():
        answers = [best[0].text for best in load(run).translate(sources, beam=5)]
        score = evaluate(answers, [[line] for line in references], parse_metrics("bleu:none"))[0]
        results[name] = {"bleu": score.value, "low": score.low, "high": score.high}
        print(f"{name:<24}{score.value:6.1f}  [{score.low:.1f}, {score.high:.1f}]", flush=True)
    (work / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
