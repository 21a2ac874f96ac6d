"""Minutes of training until translations of Multi30k's validation file reach 30 BLEU, beside three peers.

    python benchmarks/time_to_quality.py --records FILE --folder FOLDER [--only NAME …] [--minutes 60]

Multi30k English to German, raw, joint vocabulary of 8,000; Transformer of 3+3 layers, width 256; 4,096 tokens a
batch, label smoothing and dropout 0.1, Adam with betas 0.9 and 0.98, a rate that rises over 400 updates to 1e-3
and then falls with 1/√update: the same for all, one run each. Contestants save their weights every so many
updates, and the clock of training runs on meanwhile. Afterwards, off the clock, each one's own decoder
translates the 1,014 lines of val.en. BLEU is sacreBLEU's: 13a, with case.

What is done is recorded and not done again, so contestants may be run apart, in one go or side by side.
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

from checkpoints import CONTESTANTS
from command import add_figure_options, run_command
from decoders import run_decoder
from machine import describe
from quality_report import draw, show, summarise
from trials import Row, conduct, read_rows
from workload import Recipe, Transformer, Workload, find_multi30k, prepare_corpus

from seqloom import SeqloomError
from seqloom.evaluate.metrics import evaluate
from seqloom.inspect.picture import save_figure
from seqloom.text.pair import TokenizerPair


@dataclass(frozen=True)
class Series:
    """All that is the same for every contestant."""

    workload: Workload
    model: Transformer
    environments: Path
    folder: Path  # of the contestants' folders
    records: Path
    work: Path

    @property
    def tokenizers(self) -> TokenizerPair:
        return self.workload.corpus.tokenizers

    @property
    def threads(self) -> int:
        return self.workload.threads

    def keys(self) -> Row:
        """What a training is known by: whoever changes one of these gets another training."""
        return {
            "minutes": self.workload.seconds / 60,
            "threads": self.threads,
            "batch_tokens": self.workload.batch_tokens,
            "every": self.workload.checkpoint_every,
            "width": self.model.width,
            "layers": self.model.layers,
            "tokenizers": self.tokenizers.fingerprint,
        }

    def place(self, contestant: str) -> Path:
        """The folder that a contestant trains in, another one for another training."""
        digest = hashlib.sha256(json.dumps(self.keys()).encode()).hexdigest()[:8]
        return self.folder / f"{contestant}-{digest}"

    def lines(self, name: str) -> list[str]:
        return Path(self.workload.corpus.file(name)).read_text(encoding="utf-8").rstrip("\n").split("\n")


def first_reaching(
    steps: Sequence[int], score: Callable[[int], float], target: float, stride: int
) -> int | None:
    """The first of the steps with that score, or None.

    Only every `stride`-th is looked at, and the last, until one has it; then those between it and the one
    before. A curve that rises but for noise needs few decodings so, and is seen from its beginning.
    """
    coarse = sorted({*range(stride - 1, len(steps), stride), len(steps) - 1}) if steps else []
    below = -1
    for place in coarse:
        if score(steps[place]) >= target:
            return next(step for step in steps[below + 1 : place + 1] if score(step) >= target)
        below = place
    return None


def trained(series: Series, name: str) -> Row:
    """The record of a contestant's training, which is begun anew if it was broken off."""
    keys = {"kind": "training", "contestant": name, **series.keys()}

    def trial(**_keys: object) -> Row:
        folder = series.place(name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"{name}: training for {series.workload.seconds / 60:g} minutes …", file=sys.stderr, flush=True)
        contestant = CONTESTANTS[name]
        measured = contestant.train(series.model, series.workload, series.environments, folder)
        saved = contestant.checkpoints(
            folder, measured.start_to_first_update, series.workload.checkpoint_every or 1
        )
        machine = describe(series.threads, importlib.metadata.version("torch"))
        return {**asdict(measured), "checkpoints": [asdict(one) for one in saved], **asdict(machine)}

    return _of(keys, conduct(series.records, [keys], trial))


def bleu(series: Series, name: str, step: int, beam: int) -> Row:
    """The record of a checkpoint's BLEU, for which it is translated by its own toolkit."""
    keys = {"kind": "bleu", "contestant": name, "step": step, "beam": beam, **series.keys()}

    def trial(**_keys: object) -> Row:
        decoder = CONTESTANTS[name].decoder(series.place(name), step, series.environments)
        folder = series.place(name) / f"decoded-{step}-{beam}"
        folder.mkdir(exist_ok=True)
        result = run_decoder(decoder, series, series.lines("val.en"), [beam], single=0, folder=folder)
        answers = result.searches[beam].answers
        (folder / "answers.de").write_text("".join(f"{line}\n" for line in answers), encoding="utf-8")
        (score,) = evaluate(answers, [[line] for line in series.lines("val.de")], "bleu")
        return {"bleu": round(score.value, 2), "low": score.low, "high": score.high}

    return _of(keys, conduct(series.records, [keys], trial))


def _of(keys: Row, rows: Sequence[Row]) -> Row:
    return next(row for row in reversed(rows) if row.items() >= keys.items())


def measure(series: Series, name: str, *, target: float, beam: int, stride: int) -> None:
    """Trains a contestant and looks for its first checkpoint that reaches the target."""
    steps = [checkpoint["step"] for checkpoint in trained(series, name)["checkpoints"]]
    if not steps:
        raise SeqloomError(
            f"{name} saved nothing in {series.workload.seconds / 60:g} minutes.",
            "give more --minutes or a smaller --every",
        )
    first_reaching(steps, lambda step: float(bleu(series, name, step, beam)["bleu"]), target, stride)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--records", type=Path, required=True, metavar="FILE", help="JSON lines")
    parser.add_argument("--folder", type=Path, required=True, help="where checkpoints are kept")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--minutes", type=float, default=60, help="of training, each (default: %(default)s)")
    parser.add_argument("--bleu", type=float, default=30, help="the target (default: %(default)s)")
    parser.add_argument("--every", type=int, default=100, help="updates a checkpoint (default: %(default)s)")
    parser.add_argument(
        "--stride",
        type=int,
        default=4,
        help="one of so many checkpoints is decoded first (default: %(default)s)",
    )
    parser.add_argument("--beam", type=int, default=1, help="1 is greedy (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of each contestant (default: %(default)s)")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="default: %(default)s")
    parser.add_argument("--width", type=int, default=256, help="of the model (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=3, help="of each side (default: %(default)s)")
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
        for name in options.only:
            measure(series, name, target=options.bleu, beam=options.beam, stride=options.stride)
        _report(options, series.keys())


def _report(options: argparse.Namespace, keys: Mapping[str, object]) -> None:
    """Prints and draws all that is recorded for this series, also of contestants that ran before."""
    alike = {key: value for key, value in keys.items() if key != "minutes"}  # a slow one is given more
    rows = [row for row in read_rows(options.records) if row.items() >= alike.items()]
    summaries = summarise(rows, list(CONTESTANTS), beam=options.beam, target=options.bleu)
    show(summaries, target=options.bleu, beam=options.beam)
    if options.out:
        save_figure(draw(summaries, target=options.bleu, style=options.style), options.out)


if __name__ == "__main__":
    run_command(main)
