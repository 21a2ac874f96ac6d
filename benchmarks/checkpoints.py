"""What contestants save while they train, and each one's own decoder for a checkpoint of its own.

A further contestant is named among CONTESTANTS: how it trains, where its metrics and checkpoints are, and a
function that returns the `Decoder` of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoders import Decoder, Speech
from environment import Environment
from measure import Measurement, Update, read_updates
from ours import seqloom
from peers import HUGGINGFACE, JOEYNMT, OPENNMT, huggingface, joeynmt, opennmt
from workload import Transformer, Workload

from seqloom import __version__
from seqloom.decode.config import SearchConfig
from seqloom.types import UNK

# Answers are cut sooner than by default: whoever has learned little goes on to the end, and a step of Joey NMT
# takes the longer, the more there is before it. No reference is as long.
_LENGTH = {"max_length_factor": 2.0, "max_length_extra": 10}
_SEARCH = SearchConfig.model_validate(_LENGTH)
_TOLD = {**_LENGTH, "batch": 64, "length_penalty": _SEARCH.length_penalty}  # to those that have to be told


@dataclass(frozen=True)
class Checkpoint:
    """Weights that were saved after so many updates, and the clock at that update."""

    step: int
    seconds: float  # since the first update, with saving all earlier checkpoints
    seconds_from_start: float  # of the process
    target_tokens: int  # real ones, seen so far


@dataclass(frozen=True)
class Contestant:
    """A toolkit that trains and translates; paths are inside the folder that it trains in."""

    train: Callable[[Transformer, Workload, Path, Path], Measurement]
    metrics: str
    saved: str  # a checkpoint, with {step}
    decoder: Callable[[Path, int, Path], Decoder]  # of the folder, the step and the environments

    def checkpoints(self, folder: Path, start_to_first_update: float, every: int) -> list[Checkpoint]:
        """What was saved in that folder, oldest first."""
        updates = read_updates(folder / self.metrics)
        steps = {u.step for u in updates if u.step % every == 0 and self.file(folder, u.step).exists()}
        return clocked([u for u in updates if u.step in steps], updates[0], start_to_first_update)

    def file(self, folder: Path, step: int) -> Path:
        return folder / self.saved.format(step=step)


def clocked(updates: list[Update], first: Update, start_to_first_update: float) -> list[Checkpoint]:
    """Checkpoints of these updates; what comes before the first one, such as reading data, is no training."""
    return [
        Checkpoint(
            step=update.step,
            seconds=round(update.seconds - first.seconds, 2),
            seconds_from_start=round(update.seconds - first.seconds + start_to_first_update, 2),
            target_tokens=update.target_tokens,
        )
        for update in updates
    ]


def _ours(folder: Path, step: int, _environments: Path) -> Decoder:
    options = {
        "folder": str(folder / "run"),
        "checkpoint": f"step-{step}",
        "search": _LENGTH,
        "engine": "torch",
        "expected": "torch",
    }
    return Decoder("seqloom", __version__, "seqloom_translate.py", options)


def _opennmt(folder: Path, step: int, environments: Path) -> Decoder:
    file = CONTESTANTS["opennmt"].file(folder, step)
    longest = _SEARCH.max_length(_SEARCH.batch_tokens)
    options = {**_TOLD, "file": str(file), "pieces": True, "batch_type": "sents", "max_length": longest}
    return _peer(OPENNMT, "opennmt_translate.py", options, "pieces", environments)


def _huggingface(folder: Path, step: int, environments: Path) -> Decoder:
    file = CONTESTANTS["huggingface"].file(folder, step)
    options = {**_TOLD, "folder": str(file), "shift": UNK + 1, "early_stopping": True}
    return _peer(HUGGINGFACE, "huggingface_generate.py", options, "ids", environments)


def _joeynmt(folder: Path, step: int, environments: Path) -> Decoder:
    file = CONTESTANTS["joeynmt"].file(folder, step)
    options = {**_TOLD, "file": str(file), "config": str(folder / "config.yaml")}
    return _peer(JOEYNMT, "joeynmt_translate.py", options, "pieces", environments)


def _peer(
    environment: Environment, driver: str, options: dict[str, Any], speaks: Speech, environments: Path
) -> Decoder:
    python = environment.python(environments)
    return Decoder(environment.package, environment.version, driver, options, speaks, python)


CONTESTANTS = {
    "seqloom": Contestant(seqloom, "run/metrics.jsonl", "run/checkpoints/step-{step}", _ours),
    "opennmt": Contestant(opennmt, "metrics.jsonl", "model_step_{step}.pt", _opennmt),
    "huggingface": Contestant(huggingface, "metrics.jsonl", "model/checkpoint-{step}", _huggingface),
    "joeynmt": Contestant(joeynmt, "metrics.jsonl", "model/{step}.ckpt", _joeynmt),
}
