"""Copy digits with and without attention: errors by length show how much one vector can hold.

    python benchmarks/bottleneck.py --out bottleneck.png --json bottleneck.json

Both models have the same size and train on the same lines of 1 to 40 random digits for the same number of
updates. The score is the number of edits per 100 digits on 1,000 new lines, decoded greedily.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from command import add_figure_options, run_command

import seqloom
from seqloom.evaluate.buckets import Bucket, by_length
from seqloom.inspect.buckets import ScoresByLength
from seqloom.run.load import load

LONGEST = 40
EDGES = (6, 11, 16, 21, 26, 31, 36)


def lines(count: int, seed: int) -> list[str]:
    """Return lines of 1 to 40 random digits."""
    random = Random(seed)
    return [" ".join(random.choices("0123456789", k=random.randint(1, LONGEST))) for _ in range(count)]


def measure(model: str, folder: Path, steps: int, width: int) -> list[Bucket]:
    """Train a model and return its errors by length."""
    settings = {
        "text.tokenizer": "word",
        "text.byte_fallback": False,
        "model.width": width,
        "model.layers": 1,
        "model.dropout": 0.0,
        "train.max_steps": steps,
        "train.batch_tokens": 2000,
        "train.learning_rate": 0.003,
        "train.schedule": "cosine",
        "train.warmup": 100,
        "train.label_smoothing": 0.0,
        "train.threads": 1,
        "train.checkpoint_every": steps,
    }
    seqloom.train(folder / "pairs.tsv", out=folder / model, model=model, settings=settings, plan="fixed")
    sources = lines(1000, seed=2)
    outputs = [best[0].text for best in load(folder / model).translate(sources, beam=1)]
    return by_length(sources, outputs, [[source] for source in sources], "wer", edges=EDGES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", nargs="+", default=["lstm-last", "lstm-bilinear"], help="presets to compare"
    )
    parser.add_argument("--steps", type=int, default=2000, help="updates (default: %(default)s)")
    parser.add_argument("--width", type=int, default=128, help="model width (default: %(default)s)")
    add_figure_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the scores as JSON")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        pairs = "".join(f"{line}\t{line}\n" for line in lines(50_000, seed=1))
        (folder / "pairs.tsv").write_text(pairs, encoding="utf-8")
        found = {model: measure(model, folder, options.steps, options.width) for model in options.models}
    for model, buckets in found.items():
        print(model, *(f"{bucket.span}: {bucket.score.value:.1f}" for bucket in buckets), sep="  ")
    if options.out:
        title = f"Copying digits: errors by length after {options.steps:,} updates"
        ScoresByLength(found).save(options.out, style=options.style.name, title=title)
    if options.json:
        data = {model: [bucket.as_dict() for bucket in buckets] for model, buckets in found.items()}
        options.json.write_text(json.dumps(data, indent=2), encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
