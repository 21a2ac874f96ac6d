"""Minutes of training until Multi30k validation translations reach 30 BLEU: seqloom and three toolkits.

    python benchmarks/time_to_quality.py --records FILE --folder FOLDER [--only NAME …] [--minutes 60]

All toolkits train the same model once on the raw Multi30k files, English to German: a joint vocabulary of
8,000, a Transformer with 3 + 3 layers and width 256, batches of 4,096 tokens, label smoothing and dropout 0.1,
Adam with betas 0.9 and 0.98, and a learning rate that rises to 1e-3 over 400 updates and then decays with
1/√update. Checkpoints are saved at regular intervals; the time to save them counts as training. Afterwards,
each toolkit's own decoder translates the 1,014 lines of val.en; this time does not count. BLEU is sacreBLEU,
13a, cased.

Recorded results are skipped, so toolkits can be run separately or in parallel.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from checkpoints import TOOLKITS
from command import Failures, add_figure_options, run_command
from decoders import run_decoder
from machine import describe
from quality_report import draw, show, summarise
from trials import Row, read_rows, run_trials
from workload import Recipe, Transformer, Workload, find_multi30k, prepare_corpus

from seqloom import SeqloomError
from seqloom.evaluate.metrics import evaluate
from seqloom.inspect.picture import save_figure
from seqloom.text.pair import TokenizerPair


@dataclass(frozen=True)
class Series:
    """Settings shared by all toolkits."""

    workload: Workload
    model: Transformer
    environments: Path
    folder: Path  # contains one folder per toolkit
    records: Path
    work: Path

    @property
    def tokenizers(self) -> TokenizerPair:
        return self.workload.corpus.tokenizers

    @property
    def threads(self) -> int:
        return self.workload.threads

    def keys(self) -> Row:
        """Return the settings that identify a training."""
        return {
            "minutes": self.workload.seconds / 60,
            "threads": self.threads,
            "batch_tokens": self.workload.batch_tokens,
            "every": self.workload.checkpoint_every,
            "width": self.model.width,
            "layers": self.model.layers,
            "tokenizers": self.tokenizers.fingerprint,
        }

    def place(self, toolkit: str) -> Path:
        """Return the training folder of a toolkit for these settings."""
        digest = hashlib.sha256(json.dumps(self.keys()).encode()).hexdigest()[:8]
        return self.folder / f"{toolkit}-{digest}"

    def lines(self, name: str) -> list[str]:
        return Path(self.workload.corpus.file(name)).read_text(encoding="utf-8").rstrip("\n").split("\n")


def first_reaching(
    steps: Sequence[int], score: Callable[[int], float], target: float, stride: int
) -> int | None:
    """Return the first step whose score reaches the target, or None.

    Scores every `stride`-th step and the last one until one reaches the target, then the steps between it and
    the step scored before. This needs few decodings if the curve rises.
    """
    coarse = sorted({*range(stride - 1, len(steps), stride), len(steps) - 1}) if steps else []
    below = -1
    for place in coarse:
        if score(steps[place]) >= target:
            return next(step for step in steps[below + 1 : place + 1] if score(step) >= target)
        below = place
    return None


def train(series: Series, name: str) -> Row:
    """Train a toolkit, unless recorded, and return the record. An interrupted training is restarted."""
    keys = {"kind": "training", "toolkit": name, **series.keys()}

    def trial(**_keys: object) -> Row:
        folder = series.place(name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"{name}: training for {series.workload.seconds / 60:g} minutes …", file=sys.stderr, flush=True)
        toolkit = TOOLKITS[name]
        measured = toolkit.train(series.model, series.workload, series.environments, folder)
        saved = toolkit.checkpoints(
            folder, measured.start_to_first_update, series.workload.checkpoint_every or 1
        )
        machine = describe(series.threads, importlib.metadata.version("torch"))
        return {**asdict(measured), "checkpoints": [asdict(one) for one in saved], **asdict(machine)}

    return _of(keys, run_trials(series.records, [keys], trial))


def bleu(series: Series, name: str, step: int, beam: int) -> Row:
    """Decode a checkpoint with its own toolkit, unless recorded, and return the record of its BLEU."""
    keys = {"kind": "bleu", "toolkit": name, "step": step, "beam": beam, **series.keys()}

    def trial(**_keys: object) -> Row:
        decoder = TOOLKITS[name].decoder(series.place(name), step, series.environments)
        folder = series.place(name) / f"decoded-{step}-{beam}"
        folder.mkdir(exist_ok=True)
        result = run_decoder(decoder, series, series.lines("val.en"), [beam], single=0, folder=folder)
        outputs = result.searches[beam].outputs
        (folder / "outputs.de").write_text("".join(f"{line}\n" for line in outputs), encoding="utf-8")
        (score,) = evaluate(outputs, [[line] for line in series.lines("val.de")], "bleu")
        return {"bleu": round(score.value, 2), "low": score.low, "high": score.high}

    return _of(keys, run_trials(series.records, [keys], trial))


def _of(keys: Row, rows: Sequence[Row]) -> Row:
    return next(row for row in reversed(rows) if row.items() >= keys.items())


def measure(series: Series, name: str, *, target: float, beam: int, stride: int) -> None:
    """Train a toolkit and search for its first checkpoint that reaches the target."""
    steps = [checkpoint["step"] for checkpoint in train(series, name)["checkpoints"]]
    if not steps:
        raise SeqloomError(
            f"{name} saved no checkpoint in {series.workload.seconds / 60:g} minutes.",
            "Increase --minutes or decrease --every.",
        )
    first_reaching(steps, lambda step: float(bleu(series, name, step, beam)["bleu"]), target, stride)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--records", type=Path, required=True, metavar="FILE", help="results, as JSON lines")
    parser.add_argument("--folder", type=Path, required=True, help="folder for checkpoints")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=TOOLKITS, default=list(TOOLKITS))
    parser.add_argument(
        "--minutes",
        type=float,
        default=60,
        help="minutes of training each (default: %(default)s)",
    )
    parser.add_argument("--bleu", type=float, default=30, help="target BLEU (default: %(default)s)")
    parser.add_argument("--every", type=int, default=100, help="updates per checkpoint (default: %(default)s)")
    parser.add_argument(
        "--stride",
        type=int,
        default=4,
        help="decode every n-th checkpoint first (default: %(default)s)",
    )
    parser.add_argument("--beam", type=int, default=1, help="beam size (default: %(default)s, greedy)")
    parser.add_argument("--threads", type=int, default=1, help="threads per toolkit (default: %(default)s)")
    parser.add_argument(
        "--batch-tokens",
        type=int,
        default=4096,
        help="tokens per batch (default: %(default)s)",
    )
    parser.add_argument("--width", type=int, default=256, help="model width (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=3, help="layers per side (default: %(default)s)")
    parser.add_argument(
        "--environments", type=Path, default=Path.home() / ".cache" / "seqloom" / "peers", metavar="FOLDER"
    )
    add_figure_options(parser)
    return parser.parse_args()


def main() -> None:
    options = parse()
    model = Transformer(width=options.width, layers=options.layers, ffn=4 * options.width)
    with tempfile.TemporaryDirectory(prefix="seqloom-benchmark-") as temporary:
        work = Path(temporary)
        corpus = prepare_corpus(find_multi30k(os.environ), work / "corpus", vocabulary=8000)
        workload = Workload(
            corpus,
            seconds=60 * options.minutes,
            warmup=0,
            threads=options.threads,
            batch_tokens=options.batch_tokens,
            recipe=Recipe(),
            checkpoint_every=options.every,
        )
        series = Series(workload, model, options.environments, options.folder, options.records, work)
        failures = Failures()
        for name in options.only:
            with failures.collect(name):
                measure(series, name, target=options.bleu, beam=options.beam, stride=options.stride)
        _report(options, series.keys())
    failures.raise_if_any()


def _report(options: argparse.Namespace, keys: Mapping[str, object]) -> None:
    """Print and draw all recorded results of this series, including earlier ones."""
    alike = {key: value for key, value in keys.items() if key != "minutes"}  # slow toolkits may get more time
    rows = [row for row in read_rows(options.records) if row.items() >= alike.items()]
    summaries = summarise(rows, list(TOOLKITS), beam=options.beam, target=options.bleu)
    show(summaries, target=options.bleu, beam=options.beam)
    if options.out:
        save_figure(draw(summaries, target=options.bleu, style=options.style), options.out)


if __name__ == "__main__":
    run_command(main)
