"""Memory span of an RNN, an LSTM and a GRU of the same width: accuracy by distance.

    python benchmarks/recall.py --out recall.png --json recall.json [--cells rnn,lstm,gru] [--steps 2000]

The task is `recall` (seqloom.data.tasks): the source is a letter followed by digits, the target is the letter.
For every cell and distance, a model without attention (rnn-last, lstm-last, gru-last; one layer, forward only)
is trained from scratch and tested on new pairs. The training pairs all have the same distance (`exact`, with
each initialisation) or any distance up to it (`upto`, with the default initialisation). A run ends early when
its accuracy reaches 99 %, and a curve ends after two consecutive distances with a median below 95 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from command import add_figure_options, run_command
from machine import describe
from recall_curves import GOAL, Curve, Trial, draw_curves

from seqloom.data.batching import collate_ids
from seqloom.data.tasks.symbols import DIGITS, LETTERS, recall
from seqloom.inspect.picture import save_figure
from seqloom.models.base import SequenceModel
from seqloom.run.build import build_neural
from seqloom.run.config import Config, compose
from seqloom.training.loss import LossModule
from seqloom.training.optimizer import Updater
from seqloom.training.schedule import learning_rate
from seqloom.types import UNK, Batch, Vocabularies

CELLS = ("rnn", "lstm", "gru")
# Initial recurrent weights: the default of torch; orthogonal matrices, which preserve the norm of the state; or
# an open forget gate, so that half of the cell's content remains after ln 2 · e⁵ ≈ 100 steps.
STARTS: dict[str, dict[str, Any]] = {
    "default": {},
    "orthogonal": {"model.init": "orthogonal", "model.forget_bias": 1.0},
    "open": {"model.forget_bias": 5.0},
}
TRAININGS = ("exact", "upto")
DISTANCES = (3, 5, 7, 10, 14, 20, 30, 50, 70, 100, 140, 200)
SOLVED = 0.99  # accuracy at which a run ends early
CHECK_EVERY = 50
FAILURES = 2  # consecutive distances below GOAL after which a curve ends
TEST_PAIRS = 500
IDS = {symbol: UNK + 1 + number for number, symbol in enumerate(LETTERS + DIGITS)}


@dataclass(frozen=True)
class Plan:
    """Settings shared by all runs."""

    steps: int
    width: int
    batch: int
    learning_rate: float


def configure(cell: str, start: str, plan: Plan, seed: int) -> Config:
    """Return the config of one run."""
    return compose(
        values={
            "model.name": f"{cell}-last",
            "model.direction": "forward",
            "model.width": plan.width,
            "model.layers": 1,
            "model.dropout": 0.0,
            **STARTS[start],
            "train.seed": seed,
            "train.max_steps": plan.steps,
            "train.learning_rate": plan.learning_rate,
            "train.warmup": CHECK_EVERY,
            "train.schedule": "constant",
            "train.label_smoothing": 0.0,
        }
    )


def build(config: Config) -> SequenceModel:
    """Return a model with random weights for letters and digits."""
    torch.manual_seed(config.train.seed)
    size = UNK + 1 + len(IDS)
    return build_neural(config.model, Vocabularies(size, size, shared=True))


def draw(random: Random, distance: int, count: int) -> Batch:
    """Return a batch of `count` random pairs with the given distance."""
    pairs = [recall(random, distance) for _ in range(count)]
    sources = [[IDS[symbol] for symbol in source.split()] for source, _ in pairs]
    return collate_ids(sources, [[IDS[target]] for _, target in pairs], range(count))


def accuracy(model: SequenceModel, batch: Batch) -> float:
    """Return the share of pairs whose first predicted token is the letter."""
    assert batch.target_out is not None
    with torch.no_grad():
        predicted = model(batch)[:, 0].argmax(-1)
    return float((predicted == batch.target_out[:, 0]).float().mean())


def run(config: Config, distance: int, training: str, plan: Plan) -> Trial:
    """Train a model at, or up to, the distance and test it at the distance. Every batch is new."""
    began, train = time.process_time(), config.train
    model, random = build(config), Random(f"train {train.seed}")
    updater, loss_module = Updater(model, train), LossModule(model, train.label_smoothing, train.precision)
    for step in range(1, plan.steps + 1):
        batch = draw(random, distance if training == "exact" else random.randint(1, distance), plan.batch)
        torch.autograd.backward(loss_module(batch).total)
        updater.update(batch.target_tokens, learning_rate(train, step, step / plan.steps))
        if step % CHECK_EVERY == 0 and accuracy(model, draw(random, distance, TEST_PAIRS)) >= SOLVED:
            break
    right = accuracy(model, draw(Random("test"), distance, TEST_PAIRS))
    return Trial(distance, train.seed, right, step, round(time.process_time() - began, 1))


class Progress:
    """Progress report: the result of every run and an upper limit of the remaining time."""

    def __init__(self, plan: Plan, curves: int, distances: Sequence[int], seeds: Sequence[int]) -> None:
        self.began, self.plan, self.distances, self.seeds = time.monotonic(), plan, distances, seeds
        self.done, self.left = 0, curves * len(seeds) * sum(map(self._work, distances))

    def report(self, curve: Curve, trial: Trial) -> None:
        work = self._work(trial.distance)
        self.done += work * trial.steps // self.plan.steps
        self.left -= work
        minutes = (time.monotonic() - self.began) * self.left / max(self.done, 1) / 60
        print(
            f"{curve}: distance {trial.distance}, seed {trial.seed}: {trial.accuracy:.1%} "
            f"after {trial.steps:,} steps, {trial.seconds:.0f} s; at most {minutes:.0f} min left",
            file=sys.stderr,
            flush=True,
        )

    def skip(self, curve: Curve) -> None:
        """Remove the distances after the last one of a curve from the remaining work."""
        beyond = [distance for distance in self.distances if distance > curve.distances()[-1]]
        self.left -= len(self.seeds) * sum(map(self._work, beyond))

    def _work(self, distance: int) -> int:
        """Return the cost of a full run in cell steps; the rest of an update costs about ten steps."""
        return self.plan.steps * (10 + distance)


def explore(
    curve: Curve, plan: Plan, distances: Sequence[int], seeds: Sequence[int], progress: Progress
) -> None:
    """Measure a curve from short to long distances, until FAILURES consecutive distances fail."""
    failed: list[int] = []
    for distance in distances:
        for seed in seeds:
            trial = run(configure(curve.cell, curve.start, plan, seed), distance, curve.training, plan)
            curve.trials.append(trial)
            progress.report(curve, trial)
        failed = [*failed, distance] if curve.median(distance) < GOAL else []
        if len(failed) == FAILURES:
            curve.stopped = f"below {GOAL:.0%} at {' and '.join(map(str, failed))}"
            progress.skip(curve)
            return


def parse() -> argparse.Namespace:
    def names(known: Sequence[str]) -> Any:
        def read(text: str) -> list[str]:
            chosen = [name.strip() for name in text.split(",")]
            if wrong := [name for name in chosen if name not in known]:
                raise argparse.ArgumentTypeError(f"unknown name {wrong[0]!r}, choose from {', '.join(known)}")
            return chosen

        return read

    def numbers(text: str) -> list[int]:
        try:
            found = sorted({int(part) for part in text.split(",")})
        except ValueError:
            found = []
        if not found or found[0] < 1:
            raise argparse.ArgumentTypeError(f"expected positive integers separated by commas, not {text!r}")
        return found

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_figure_options(parser, required=True)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements as JSON")
    parser.add_argument(
        "--cells",
        type=names(CELLS),
        default=list(CELLS),
        help=f"cells (default: {','.join(CELLS)})",
    )
    parser.add_argument(
        "--starts",
        type=names(list(STARTS)),
        default=list(STARTS),
        help=f"initialisations (default: {','.join(STARTS)})",
    )
    parser.add_argument(
        "--trainings",
        type=names(TRAININGS),
        default=list(TRAININGS),
        help=f"training pairs (default: {','.join(TRAININGS)})",
    )
    parser.add_argument(
        "--distances",
        type=numbers,
        default=list(DISTANCES),
        help="distances (default: 3 to 200)",
    )
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3], help="random seeds (default: 1,2,3)")
    parser.add_argument(
        "--steps",
        type=int,
        default=2000,
        help="maximum number of updates (default: %(default)s)",
    )
    parser.add_argument(
        "--width",
        type=int,
        default=64,
        help="width of embedding and state (default: %(default)s)",
    )
    parser.add_argument("--batch", type=int, default=64, help="pairs per update (default: %(default)s)")
    parser.add_argument(
        "--learning-rate",
        type=float,
        default=1e-3,
        help="learning rate (default: %(default)s)",
    )
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: %(default)s)")
    return parser.parse_args()


def plan_curves(options: argparse.Namespace, plan: Plan) -> list[Curve]:
    """Return the curves to measure, without trials."""
    return [
        Curve(cell, start, training, parameters=_size(build(configure(cell, start, plan, seed=1))))
        for training in options.trainings
        for start in (options.starts if training == "exact" else ["default"])
        for cell in options.cells
        if start != "open" or cell == "lstm"  # other cells have no forget gate
    ]


def _size(model: SequenceModel) -> int:
    return sum(weight.numel() for weight in model.parameters())


def measure(options: argparse.Namespace) -> list[Curve]:
    """Measure all curves one after the other, and write the results so far after each."""
    torch.set_num_threads(options.threads)
    plan = Plan(options.steps, options.width, options.batch, options.learning_rate)
    curves = plan_curves(options, plan)
    progress = Progress(plan, len(curves), options.distances, options.seeds)
    seeds = "1 seed" if len(options.seeds) == 1 else f"{len(options.seeds)} seeds"
    title = f"Recall by distance: width {plan.width}, at most {plan.steps:,} updates, {seeds}"
    for number, curve in enumerate(curves, 1):
        explore(curve, plan, options.distances, options.seeds, progress)
        figure = draw_curves(curves[:number], chance=1 / len(LETTERS), title=title, style=options.style)
        save_figure(figure, options.out)
        if options.json:
            report = {
                "machine": asdict(describe(options.threads, torch.__version__)),
                "plan": asdict(plan),
                "seeds": options.seeds,
                "distances": options.distances,
                "seconds": round(time.monotonic() - progress.began),
                "processor_seconds": round(time.process_time()),
                "curves": [done.as_json() for done in curves[:number]],
            }
            options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return curves


def main() -> None:
    for curve in measure(parse()):
        print(f"{curve}: {curve.describe_reach()}" + (f" ({curve.stopped})" if curve.stopped else ""))
        for distance in curve.distances():
            print(f"  {distance:>5}:", *(f"{100 * accuracy:.1f}" for accuracy in curve.accuracies(distance)))


if __name__ == "__main__":
    run_command(main)
