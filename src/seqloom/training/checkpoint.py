"""Checkpoints: written atomically, verified when read, without pickle."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor, nn

from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.files import (
    clean_up_leftovers,
    new_folder,
    point_to,
    remove_folder,
    sealed,
    sha256,
    unsealed,
    write_json,
)
from seqloom.tensors import read_tensors, write_tensors

MODEL, TRAINING, STATE, BEST, AVERAGE = (
    "model.safetensors",
    "training.safetensors",
    "state.json",
    "best",
    "average",
)


_Count = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass
class TrainState:
    """The progress of a run; together with the saved tensors, all that an exact resume needs."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)  # for reading it from a file

    step: _Count = 0
    epoch: _Count = 0
    batch: _Count = 0  # batches of this epoch already used
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    reported: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0  # seconds at the last report
    target_tokens: _Count = 0
    skipped: _Count = 0  # updates skipped because the gradient was not finite
    split: _Count = 0  # updates whose batches were split because memory ran out
    best: float | None = None  # the best goal so far; higher is better
    best_step: _Count | None = None
    worse: _Count = 0  # validations since the best one
    finished: str = ""  # the reason why the run ended; empty before that
    interim: bool = False  # saved off schedule because the run was stopped; removed at the next save


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of the model by name; tied ones are included once."""
    return {name: tensor.detach().contiguous().cpu() for name, tensor in _unique_tensors(model).items()}


def _unique_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and persistent buffers themselves, each under the first of its names."""
    first: dict[int, str] = {}
    tensors = model.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in tensors.items() if first.setdefault(id(tensor), name) == name}


def load_weights(model: nn.Module, file: Path) -> None:
    """Copy the tensors of a file into the model; raise if the file is damaged or does not fit."""
    model.load_state_dict(_read_matching(file, _unique_tensors(model)), strict=False)


def assign_weights(model: nn.Module, file: Path) -> None:
    """Replace the tensors of the model, which may be on the meta device; tied ones stay tied."""
    unique = _unique_tensors(model)
    tensors = _read_matching(file, unique)
    new = {id(old): _copied_as(old, tensors[name]) for name, old in unique.items()}
    every = model.state_dict(keep_vars=True)
    model.load_state_dict({name: new[id(old)] for name, old in every.items()}, assign=True)


def _copied_as(old: Tensor, values: Tensor) -> Tensor:
    """Return a copy of the values with the type of the old tensor; the values may be memory-mapped."""
    copied = values.to(old.dtype, copy=True)
    return nn.Parameter(copied, old.requires_grad) if isinstance(old, nn.Parameter) else copied


def _read_matching(file: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """Read a file whose tensors have exactly the expected names and shapes."""
    tensors = read_tensors(file)
    wrong = sorted(
        (tensors.keys() | expected.keys())
        - {name for name in tensors.keys() & expected.keys() if tensors[name].shape == expected[name].shape}
    )
    if wrong:
        raise SeqloomError(
            f"The weights in {file} do not fit this model: {wrong[0]} is missing, unknown or has the wrong "
            "shape.",
            "the file belongs to another run, or config.yaml was changed after training",
        )
    return tensors


def check_sums(folder: Path, names: Iterable[str], *, record: str = STATE, tokenizers: str = "") -> None:
    """Raise if a file differs from its recorded checksum, or if the checkpoint has other tokenizers."""
    values = _read_json(folder / record)
    sums = values.get("sha256", {})
    if not isinstance(sums, dict):
        raise _unreadable(folder / record, "its checksums are not an object")
    if tokenizers and values.get("tokenizers", tokenizers) != tokenizers:
        raise SeqloomError(
            f"The checkpoint {folder} belongs to another run: it was trained with other tokenizers.",
            "use it in its own run directory",
        )
    for name in names:
        if not (folder / name).is_file() or sha256(folder / name) != sums.get(name):
            raise SeqloomError(
                f"The checkpoint file {folder / name} is damaged: its checksum does not match.",
                _hint_without(folder),
            )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        return unsealed(values)
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, reason: object) -> SeqloomError:
    return SeqloomError(
        f"The checkpoint state {file} cannot be read: {reason}.",
        _hint_without(file.parent),
    )


def _hint_without(folder: Path) -> str:
    return f"use another checkpoint, restore it from a backup, or remove {folder} and run seqloom resume"


class Checkpoints:
    """The folder checkpoints/ of a run: the newest step-N, the best one, and the link best → step-N."""

    def __init__(self, folder: Path, keep: int = 3, *, tokenizers: str = "") -> None:
        self.folder = folder
        self.keep = keep
        self.tokenizers = tokenizers  # checksum of the run's tokenizers

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def steps(self) -> list[int]:
        """Return the steps that have a complete checkpoint, in order."""
        found = (p.name.removeprefix("step-") for p in self.folder.glob("step-*"))
        return sorted(int(number) for number in found if number.isascii() and number.isdecimal())

    def save(self, weights: dict[str, Tensor], training: dict[str, Tensor], state: TrainState) -> None:
        """Write the checkpoint of this state, update the link `best`, and remove old checkpoints."""
        with new_folder(self.path(state.step)) as folder:
            sums = {MODEL: write_tensors(folder / MODEL, weights)}
            sums[TRAINING] = write_tensors(folder / TRAINING, training)
            self._describe(folder, asdict(state), sums)
        self._tidy(state)

    def _describe(self, folder: Path, state: dict[str, Any], sums: dict[str, str]) -> None:
        write_json(folder / STATE, sealed({**state, "tokenizers": self.tokenizers, "sha256": sums}))

    def _tidy(self, state: TrainState) -> None:
        """Make the link `best` and the kept checkpoints match the newest state."""
        best = self.folder / BEST
        if self._average_is_best():
            point_to(best, AVERAGE)
        elif state.best_step is not None and self.path(state.best_step).exists():
            point_to(best, f"step-{state.best_step}")
        for step in self.steps()[:-1]:
            if self._is_interim(step):
                remove_folder(self.path(step))
        served = best.resolve().name
        for step in self.steps()[: -self.keep]:
            if step != state.best_step and served != f"step-{step}":
                remove_folder(self.path(step))

    def _average_is_best(self) -> bool:
        return self.has_average() and bool(_read_json(self.folder / AVERAGE / STATE).get("best"))

    def _is_interim(self, step: int) -> bool:
        """Return whether a checkpoint is to be removed; one that cannot be read is left to the user."""
        try:
            return bool(_read_json(self.path(step) / STATE).get("interim"))
        except SeqloomError:
            return False

    def recover(self) -> list[str]:
        """Make the newest checkpoint one that training can continue from; return messages about repairs.

        Operations interrupted by a crash are completed or undone. A damaged checkpoint is renamed if an earlier
        one is intact: training repeats the same states from there.
        """
        clean_up_leftovers(self.folder)
        damaged: dict[int, str] = {}
        for step in reversed(self.steps()):
            try:
                self._read_state(self.path(step))
                break
            except SeqloomError as error:
                damaged[step] = error.message
        else:
            return []  # none is intact: restoring the newest one reports the error
        best = self.folder / BEST
        if best.is_symlink() and (best.resolve().name in map("step-{}".format, damaged) or not best.exists()):
            point_to(best, f"step-{step}")
        for step in damaged:
            aside = self.folder / f"damaged-step-{step}"
            if aside.exists():
                remove_folder(aside)
            os.rename(self.path(step), aside)
        return [
            f"{message} It was renamed; training continues from step {self.steps()[-1]:,}."
            for message in damaged.values()
        ]

    def restore(self, model: nn.Module, *, tidy: bool = True) -> tuple[dict[str, Tensor], TrainState] | None:
        """Load the newest checkpoint into the model; return its training tensors and its state."""
        state = self.restore_state(tidy=tidy)
        if state is None:
            return None
        folder = self.path(state.step)
        load_weights(model, folder / MODEL)
        return read_tensors(folder / TRAINING), state

    def restore_state(self, *, tidy: bool = True) -> TrainState | None:
        """Verify the newest checkpoint and return its state; `tidy` updates the link and removes old ones."""
        steps = self.steps()
        if not steps:
            return None
        state = self._read_state(self.path(steps[-1]))
        if tidy:
            self._tidy(state)
        return state

    def _read_state(self, folder: Path) -> TrainState:
        values = _read_json(folder / STATE)
        sums, _ = values.pop("sha256", None), values.pop("tokenizers", "")
        try:
            state = TypeAdapter(TrainState).validate_json(json.dumps(values))
        except ValidationError as error:
            first = error.errors()[0]
            raise _unreadable(folder / STATE, f"{first['loc'][0]}: {first['msg'].lower()}") from error
        if sums is None or folder.name != f"step-{values.get('step')}":
            raise _unreadable(folder / STATE, "it is incomplete or belongs to another step")
        check_sums(folder, (MODEL, TRAINING), tokenizers=self.tokenizers)
        if state.best is not None and not math.isfinite(state.best):  # older versions wrote NaN
            state.best = state.best_step = None
        return state

    def average(self, model: nn.Module, count: int) -> None:
        """Load the average of the weights of the last `count` checkpoints into the model."""
        steps = self.steps()[-count:]
        total: dict[str, Tensor] = {}
        for step in steps:
            check_sums(self.path(step), [MODEL], tokenizers=self.tokenizers)
            for name, tensor in read_tensors(self.path(step) / MODEL).items():
                total[name] = total[name] + tensor if name in total else tensor.clone()
        model.load_state_dict({name: tensor / len(steps) for name, tensor in total.items()}, strict=False)

    def has_average(self) -> bool:
        return (self.folder / AVERAGE).exists()

    def remove_average(self) -> None:
        """Remove the averaged weights and point `best` to the best checkpoint again."""
        if not self.has_average():
            return
        state = self.restore_state(tidy=False)
        if state is not None and state.best_step is not None and self.path(state.best_step).exists():
            point_to(self.folder / BEST, f"step-{state.best_step}")
        remove_folder(self.folder / AVERAGE)

    def save_average(self, model: nn.Module, steps: list[int], *, best: bool) -> None:
        """Save the averaged weights, and point `best` to them if they are the best."""
        with new_folder(self.folder / AVERAGE) as folder:
            sums = {MODEL: write_tensors(folder / MODEL, weights_of(model))}
            self._describe(folder, {"average_of": steps, "best": best}, sums)
        if best:
            point_to(self.folder / BEST, AVERAGE)


def random_state(group: ProcessGroup) -> dict[str, Tensor]:
    """Return the states of the random generators of all processes."""
    states = {f"random.cpu.{rank}": state for rank, state in enumerate(group.all_gather(torch.get_rng_state()))}
    if torch.cuda.is_available():
        own = torch.cuda.get_rng_state()
        states |= {f"random.cuda.{rank}": state for rank, state in enumerate(group.all_gather(own))}
    return states


def restore_random_state(tensors: dict[str, Tensor], group: ProcessGroup) -> None:
    """Restore what `random_state` returned; a process without a saved state keeps its seed."""
    if (name := f"random.cpu.{group.rank}") in tensors:
        torch.set_rng_state(tensors[name])
    if (name := f"random.cuda.{group.rank}") in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors[name])
