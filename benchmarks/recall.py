"""How far back an RNN, an LSTM and a GRU of the same width remember: accuracy over distance, as a plot.

    python benchmarks/recall.py --out recall.png --json recall.json [--cells rnn,lstm,gru] [--steps 2000]

The task is `recall` (seqloom.data.tasks): a letter, digits behind it, and the letter is asked for. For every
cell and distance a bottleneck model (rnn-last, lstm-last, gru-last; one layer, forward only) is trained from
nothing and asked about pairs that it has not seen. The pairs that it is trained on have all that same distance
(`exact`, with each of the starts) or any distance up to it (`upto`, with the default start). A run ends early
once it is nearly always right, and a curve after two distances in a row at which it fails.
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
from torch import nn

from seqloom.config import Config, compose
from seqloom.data.batching import collate_ids
from seqloom.data.tasks.symbols import DIGITS, LETTERS, recall
from seqloom.inspect.picture import save_figure
from seqloom.registry import architecture
from seqloom.training.loss import batch_loss
from seqloom.training.optimizer import Updater
from seqloom.training.schedule import learning_rate
from seqloom.types import UNK, Batch, Vocabularies

CELLS = ("rnn", "lstm", "gru")
# How the recurrent weights begin: as torch draws them; so that they keep a state's length; or with a forget
# gate so far open that half of a cell's content is still there after ln 2 · e⁵ ≈ 100 steps.
STARTS: dict[str, dict[str, Any]] = {
    "default": {},
    "orthogonal": {"model.init": "orthogonal", "model.forget_bias": 1.0},
    "open": {"model.forget_bias": 5.0},
}
TRAININGS = ("exact", "upto")
DISTANCES = (3, 5, 7, 10, 14, 20, 30, 50, 70, 100, 140, 200)
SOLVED = 0.99  # nothing more to learn: the run may end
CHECK_EVERY = 50
FAILURES = 2  # distances in a row after which a cell goes no further
TEST_PAIRS = 500
IDS = {symbol: UNK + 1 + number for number, symbol in enumerate(LETTERS + DIGITS)}


@dataclass(frozen=True)
class Plan:
    """What is the same for every run."""

    steps: int
    width: int
    batch: int
    learning_rate: float


def configure(cell: str, start: str, plan: Plan, seed: int) -> Config:
    """The options of one run."""
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


def build(config: Config) -> nn.Module:
    """A model with fresh weights for the two alphabets."""
    torch.manual_seed(config.train.seed)
    size = UNK + 1 + len(IDS)
    model: nn.Module = architecture(config.model.name).build(config.model, Vocabularies(size, size, True))
    return model


def draw(random: Random, distance: int, count: int) -> Batch:
    """That many pairs of that distance."""
    pairs = [recall(random, distance) for _ in range(count)]
    sources = [[IDS[symbol] for symbol in source.split()] for source, _ in pairs]
    return collate_ids(sources, [[IDS[target]] for _, target in pairs], range(count))


def accuracy(model: nn.Module, batch: Batch) -> float:
    """The share of pairs whose first answer is the letter."""
    assert batch.target_out is not None
    with torch.no_grad():
        answers = model(batch)[:, 0].argmax(-1)
    return float((answers == batch.target_out[:, 0]).float().mean())


def run(config: Config, distance: int, training: str, plan: Plan) -> Trial:
    """Trains a model at or up to that distance and tests it there; every batch is drawn anew."""
    began, train = time.process_time(), config.train
    model, random = build(config), Random(f"train {train.seed}")
    updater = Updater(model, train)
    for step in range(1, plan.steps + 1):
        batch = draw(random, distance if training == "exact" else random.randint(1, distance), plan.batch)
        loss = batch_loss(model, batch, train.label_smoothing, train.precision)
        loss.total.backward()  # type: ignore[no-untyped-call]
        updater.update(batch.target_tokens, learning_rate(train, step, step / plan.steps))
        if step % CHECK_EVERY == 0 and accuracy(model, draw(random, distance, TEST_PAIRS)) >= SOLVED:
            break
    right = accuracy(model, draw(Random("test"), distance, TEST_PAIRS))
    return Trial(distance, train.seed, right, step, round(time.process_time() - began, 1))


class Progress:
    """Says after every run how it went and how long the rest may take at the most."""

    def __init__(self, plan: Plan, curves: int, distances: Sequence[int], seeds: Sequence[int]) -> None:
        self.began, self.plan, self.distances, self.seeds = time.monotonic(), plan, distances, seeds
        self.done, self.left = 0, curves * len(seeds) * sum(map(self._work, distances))

    def tell(self, curve: Curve, trial: Trial) -> None:
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
        """Takes what lies beyond a curve's last distance out of the plan."""
        beyond = [distance for distance in self.distances if distance > curve.distances()[-1]]
        self.left -= len(self.seeds) * sum(map(self._work, beyond))

    def _work(self, distance: int) -> int:
        """What a full run costs, in steps of a cell; all the rest of an update costs about ten of them."""
        return self.plan.steps * (10 + distance)


def explore(
    curve: Curve, plan: Plan, distances: Sequence[int], seeds: Sequence[int], progress: Progress
) -> None:
    """Fills a curve from near to far, until it has failed often enough."""
    failed: list[int] = []
    for distance in distances:
        for seed in seeds:
            trial = run(configure(curve.cell, curve.start, plan, seed), distance, curve.training, plan)
            curve.trials.append(trial)
            progress.tell(curve, trial)
        failed = [*failed, distance] if curve.median(distance) < GOAL else []
        if len(failed) == FAILURES:
            curve.stopped = f"failed at {' and '.join(map(str, failed))}, two distances in a row"
            progress.skip(curve)
            return


def parse() -> argparse.Namespace:
    def names(known: Sequence[str]) -> Any:
        def read(text: str) -> list[str]:
            chosen = [name.strip() for name in text.split(",")]
            if wrong := [name for name in chosen if name not in known]:
                raise argparse.ArgumentTypeError(f"there is no {wrong[0]!r}, only {', '.join(known)}")
            return chosen

        return read

    def numbers(text: str) -> list[int]:
        try:
            found = sorted({int(part) for part in text.split(",")})
        except ValueError:
            found = []
        if not found or found[0] < 1:
            raise argparse.ArgumentTypeError(f"numbers from 1 with commas between, not {text!r}")
        return found

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_figure_options(parser, required=True)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured there, too")
    parser.add_argument("--cells", type=names(CELLS), default=list(CELLS), help=f"default: {','.join(CELLS)}")
    parser.add_argument(
        "--starts", type=names(list(STARTS)), default=list(STARTS), help=f"default: {','.join(STARTS)}"
    )
    parser.add_argument(
        "--trainings", type=names(TRAININGS), default=list(TRAININGS), help=f"default: {','.join(TRAININGS)}"
    )
    parser.add_argument("--distances", type=numbers, default=list(DISTANCES), help="default: 3 to 200")
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3], help="default: 1,2,3")
    parser.add_argument("--steps", type=int, default=2000, help="updates at the most (default: %(default)s)")
    parser.add_argument("--width", type=int, default=64, help="of embedding and state (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="pairs in an update (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    return parser.parse_args()


def plan_curves(options: argparse.Namespace, plan: Plan) -> list[Curve]:
    """The curves to measure, still empty."""
    return [
        Curve(cell, start, training, parameters=_size(build(configure(cell, start, plan, seed=1))))
        for training in options.trainings
        for start in (options.starts if training == "exact" else ["default"])
        for cell in options.cells
        if start != "open" or cell == "lstm"  # the others have no forget gate
    ]


def _size(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def measure(options: argparse.Namespace) -> list[Curve]:
    """All curves, one after the other; what is known so far is written after each."""
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
        print(f"{curve}: {curve.reach_in_words()}" + (f" ({curve.stopped})" if curve.stopped else ""))


if __name__ == "__main__":
    run_command(main)
