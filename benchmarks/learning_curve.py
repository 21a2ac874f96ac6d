"""BLEU by number of training pairs: where neural models overtake phrase-based translation.

    python benchmarks/learning_curve.py --data multi30k/tokenised --work runs/curve [--out curve.png]

Models train on the first 500, 2,000, 8,000 and all 29,000 pairs of the tokenised Multi30k files, English to
German. All models use the same pairs and the same validation file, which selects the checkpoint of a neural
model and the weights of the phrase-based one. The test file is decoded once per run. Finished trials are
skipped and interrupted runs are resumed.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command import add_figure_options, run_command
from trials import Row, run_trials, train_or_resume

from seqloom.evaluate.metrics import evaluate, parse_metrics
from seqloom.inspect.line_styles import line_styles
from seqloom.inspect.picture import PAGE, Style, canvas, legend_below, save_figure
from seqloom.run.config import compose

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (500, 2000, 8000, 29_000)
VOCABULARY = {500: 1500, 2000: 3000, 8000: 5000, 29_000: 8000}
STEPS = {500: 500, 2000: 800, 8000: 1600, 29_000: 4000}
NEURAL: dict[str, Any] = {
    "model.width": 128,
    "model.dropout": 0.3,
    "text.tokenizer": "bpe",
    "train.schedule": "cosine",
    "train.learning_rate": 0.002,
    "train.warmup": 200,
    "train.batch_tokens": 3000,
    "train.ema": 0.99,
    "train.threads": 1,
    "train.metrics": "bleu:none",
    "train.best_by": "bleu:none",
    "train.checkpoint_every": 100,
    "search.beam": 1,
}
MODELS: dict[str, dict[str, Any]] = {
    "phrase": {"train.threads": 1, "model.tune_sentences": 1000},
    "transformer": {**NEURAL, "model.layers": 3, "model.heads": 4, "model.ffn": 512},
    "lstm-additive": {**NEURAL, "model.width": 256},
}


def lines(file: Path, count: int | None = None) -> list[str]:
    """Return the first lines of a gzipped file."""
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        return [line.rstrip("\n") for line in islice(stream, count)]


def options(model: str, size: int, data: Path, work: Path) -> dict[str, Any]:
    """Write the training pairs of one run and return its options."""
    table = work / f"pairs-{size}.tsv"
    sides = (lines(data / f"train.lc.norm.tok.{language}.gz", size) for language in ("en", "de"))
    work.mkdir(parents=True, exist_ok=True)
    table.write_text("".join(f"{s}\t{t}\n" for s, t in zip(*sides, strict=True)), encoding="utf-8")
    neural = {"train.max_steps": STEPS[size], "text.vocab_size": VOCABULARY[size]}
    return {
        "data.train": str(table),
        "data.valid_source": str(data / "val.lc.norm.tok.en.gz"),
        "data.valid_target": str(data / "val.lc.norm.tok.de.gz"),
        "model.name": model,
        **MODELS[model],
        **({} if model == "phrase" else neural),
    }


def measure(model: str, size: int, data: Path, work: Path) -> Row:
    """Train one model and return its BLEU on the test file."""
    translator = train_or_resume(compose(None, options(model, size, data, work)), work / f"{model}-{size}")
    sources, references = (lines(data / f"test_2016_flickr.lc.norm.tok.{side}.gz") for side in ("en", "de"))
    beam = None if model == "phrase" else 5
    outputs = [found[0].text for found in translator.translate(sources, beam=beam)]
    (score,) = evaluate(outputs, [[line] for line in references], parse_metrics("bleu:none"))
    return {"bleu": score.value, "low": score.low, "high": score.high}


def draw(rows: Sequence[Row], style: Style = PAGE) -> Figure:
    """Draw one curve per model, with intervals."""
    title = "Multi30k English → German: BLEU by number of training pairs"
    with canvas(6.5, 4.2, style=style, title=title) as figure:
        axes = figure.subplots()
        handles = []
        for name, look in line_styles(list(dict.fromkeys(row["model"] for row in rows))).items():
            found = sorted((row for row in rows if row["model"] == name), key=lambda row: row["pairs"])
            xs, values = [row["pairs"] for row in found], [row["bleu"] for row in found]
            spread = [
                [row["bleu"] - row["low"] for row in found],
                [row["high"] - row["bleu"] for row in found],
            ]
            handles.append(
                axes.errorbar(
                    xs, values, spread, marker="o", capsize=2, color=look.color, ls=look.line, label=name
                )
            )
        axes.set_xscale("log")
        axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
        axes.minorticks_off()
        axes.set_xlabel("training pairs")
        axes.set_ylabel("BLEU on test_2016_flickr")
        axes.grid(axis="y")
        legend_below(figure, handles, style)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the tokenised Multi30k files")
    parser.add_argument("--work", type=Path, required=True, help="folder for runs and records")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=SIZES)
    add_figure_options(parser)
    arguments = parser.parse_args()
    plan = product(arguments.sizes, arguments.models)
    rows = run_trials(
        arguments.work / "curve.jsonl",
        [{"model": model, "pairs": size} for size, model in plan],
        lambda model, pairs: measure(model, pairs, arguments.data, arguments.work),
    )
    for row in rows:
        print(f"{row['model']:<16}{row['pairs']:>8,}{row['bleu']:>8.1f}  [{row['low']:.1f}, {row['high']:.1f}]")
    if arguments.out:
        save_figure(draw(rows, arguments.style), arguments.out)


if __name__ == "__main__":
    run_command(main)
