"""Checkpoints that each toolkit saves during training, and the toolkit's own decoder for them.

To add a toolkit, add an entry to TOOLKITS: its training function, the paths of its metrics and checkpoints,
and a function that returns the `Decoder` of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoders import Decoder, Interface
from environment import Environment
from measure import Measurement, Update, read_updates
from ours import seqloom
from peers import HUGGINGFACE, JOEYNMT, OPENNMT, huggingface, joeynmt, opennmt
from workload import Transformer, Workload

from seqloom import __version__
from seqloom.decode.config import SearchConfig
from seqloom.types import UNK

# A lower length limit than the default: models at an early stage generate up to the limit, and the cost of a
# step in Joey NMT grows with the length of the prefix. No reference is longer than this limit.
_LENGTH = {"max_length_factor": 2.0, "max_length_extra": 10}
_SEARCH = SearchConfig.model_validate(_LENGTH)
_PEER_OPTIONS = {**_LENGTH, "batch": 64, "length_penalty": _SEARCH.length_penalty}


@dataclass(frozen=True)
class Checkpoint:
    """Saved weights: the number of updates and the training time up to that update."""

    step: int
    seconds: float  # since the first update, including the time to save earlier checkpoints
    seconds_from_start: float  # since the process started
    target_tokens: int  # without padding, up to this update


@dataclass(frozen=True)
class Toolkit:
    """A toolkit that trains and translates. Paths are relative to its training folder."""

    train: Callable[[Transformer, Workload, Path, Path], Measurement]
    metrics: str
    saved: str  # path of a checkpoint, with the placeholder {step}
    decoder: Callable[[Path, int, Path], Decoder]  # (folder, step, environments)

    def checkpoints(self, folder: Path, start_to_first_update: float, every: int) -> list[Checkpoint]:
        """Return the checkpoints saved in the folder, oldest first."""
        updates = read_updates(folder / self.metrics)
        steps = {u.step for u in updates if u.step % every == 0 and self.file(folder, u.step).exists()}
        return with_times([u for u in updates if u.step in steps], updates[0], start_to_first_update)

    def file(self, folder: Path, step: int) -> Path:
        return folder / self.saved.format(step=step)


def with_times(updates: list[Update], first: Update, start_to_first_update: float) -> list[Checkpoint]:
    """Return the checkpoints of these updates, timed from the first update (reading data is excluded)."""
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
    file = TOOLKITS["opennmt"].file(folder, step)
    longest = _SEARCH.max_length(_SEARCH.batch_tokens)
    options = {**_PEER_OPTIONS, "file": str(file), "pieces": True, "batch_type": "sents", "max_length": longest}
    return _peer(OPENNMT, "opennmt_translate.py", options, "pieces", environments)


def _huggingface(folder: Path, step: int, environments: Path) -> Decoder:
    file = TOOLKITS["huggingface"].file(folder, step)
    options = {**_PEER_OPTIONS, "folder": str(file), "shift": UNK + 1, "early_stopping": True}
    return _peer(HUGGINGFACE, "huggingface_generate.py", options, "ids", environments)


def _joeynmt(folder: Path, step: int, environments: Path) -> Decoder:
    file = TOOLKITS["joeynmt"].file(folder, step)
    options = {**_PEER_OPTIONS, "file": str(file), "config": str(folder / "config.yaml")}
    return _peer(JOEYNMT, "joeynmt_translate.py", options, "pieces", environments)


def _peer(
    environment: Environment, driver: str, options: dict[str, Any], interface: Interface, environments: Path
) -> Decoder:
    python = environment.python(environments)
    return Decoder(environment.package, environment.version, driver, options, interface, python)


TOOLKITS = {
    "seqloom": Toolkit(seqloom, "run/metrics.jsonl", "run/checkpoints/step-{step}", _ours),
    "opennmt": Toolkit(opennmt, "metrics.jsonl", "model_step_{step}.pt", _opennmt),
    "huggingface": Toolkit(huggingface, "metrics.jsonl", "model/checkpoint-{step}", _huggingface),
    "joeynmt": Toolkit(joeynmt, "metrics.jsonl", "model/{step}.ckpt", _joeynmt),
}
