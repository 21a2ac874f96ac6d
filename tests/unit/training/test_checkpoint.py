from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.files import sealed, unsealed, write_json
from seqloom.training.checkpoint import (
    Checkpoints,
    TrainState,
    load_weights,
    random_state,
    restore_random_state,
    weights_of,
)

Build = Callable[[], nn.Module]


def _state(step: int, best_step: int | None = None) -> TrainState:
    return TrainState(step=step, epoch=2, batch=3, seconds=1.5, target_tokens=70, best=0.5, best_step=best_step)


def _save(checkpoints: Checkpoints, model: nn.Module, step: int, best_step: int | None = None) -> None:
    checkpoints.save(weights_of(model), {"moment": torch.arange(3.0) * step}, _state(step, best_step))


def test_a_saved_checkpoint_is_restored_exactly(tmp_path: Path, toy: Build) -> None:
    model, other, checkpoints = toy(), toy(), Checkpoints(tmp_path)
    for weight in other.parameters():
        nn.init.zeros_(weight)
    _save(checkpoints, model, 7, best_step=7)
    restored = checkpoints.restore(other)
    assert restored is not None
    tensors, state = restored
    assert state == _state(7, best_step=7)
    assert tensors["moment"].tolist() == [0, 7, 14]
    for ours, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_tied_weights_are_written_once_and_stay_tied(tmp_path: Path, toy: Build) -> None:
    model = toy()
    assert sorted(weights_of(model)) == ["output.bias", "source.weight", "table.weight"]
    save_file(weights_of(model), tmp_path / "w")
    load_weights(model, tmp_path / "w")
    assert model.output.weight is model.table.weight  # type: ignore[union-attr]


def test_an_empty_folder_restores_nothing(tmp_path: Path, toy: Build) -> None:
    assert Checkpoints(tmp_path).restore(toy()) is None


def test_the_random_state_is_restored() -> None:
    torch.manual_seed(5)
    torch.rand(3)
    kept = {name: state.clone() for name, state in random_state(ProcessGroup()).items()}
    expected = torch.rand(4)
    torch.manual_seed(6)
    restore_random_state(kept, ProcessGroup())
    assert torch.equal(torch.rand(4), expected)


def test_the_last_n_and_the_best_are_kept(tmp_path: Path, toy: Build) -> None:
    model, checkpoints = toy(), Checkpoints(tmp_path, keep=2)
    for step, best in ((5, 5), (10, 10), (15, 10), (20, 10), (100, 10)):
        _save(checkpoints, model, step, best)
    assert checkpoints.steps() == [10, 20, 100]  # in numerical order
    assert os.readlink(tmp_path / "best") == "step-10"
    _save(checkpoints, model, 105, best_step=105)
    assert checkpoints.steps() == [100, 105]
    assert os.readlink(tmp_path / "best") == "step-105"


def test_a_crash_before_best_moved_is_repaired_when_resuming(tmp_path: Path, toy: Build) -> None:
    model, checkpoints = toy(), Checkpoints(tmp_path, keep=1)
    _save(checkpoints, model, 5, best_step=5)
    checkpoints._tidy = lambda state: None  # type: ignore[method-assign]
    _save(checkpoints, model, 10, best_step=10)
    assert os.readlink(tmp_path / "best") == "step-5"
    again = Checkpoints(tmp_path, keep=1)
    again.restore(model)
    assert os.readlink(tmp_path / "best") == "step-10"
    assert again.steps() == [10]


def test_incomplete_and_unrelated_folders_are_not_checkpoints(tmp_path: Path, toy: Build) -> None:
    model, checkpoints = toy(), Checkpoints(tmp_path)
    _save(checkpoints, model, 5)
    (tmp_path / ".step-10.tmp").mkdir()
    (tmp_path / ".step-10.tmp" / "model.safetensors").write_bytes(b"half")
    (tmp_path / "step-old").mkdir()
    assert checkpoints.steps() == [5]
    _save(checkpoints, model, 10)
    assert checkpoints.steps() == [5, 10]
    assert not (tmp_path / ".step-10.tmp").exists()


def test_a_save_that_fails_leaves_the_old_checkpoint(
    tmp_path: Path, toy: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, checkpoints = toy(), Checkpoints(tmp_path)
    _save(checkpoints, model, 5, best_step=5)

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("seqloom.training.checkpoint.write_json", full)
    with pytest.raises(OSError, match="no space"):
        _save(checkpoints, model, 10, best_step=10)
    assert checkpoints.steps() == [5]
    assert os.readlink(tmp_path / "best") == "step-5"


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_file_is_named(tmp_path: Path, toy: Build, name: str, damage: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, toy(), 5)
    file = tmp_path / "step-5" / name
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[-1] ^= 1
        file.write_bytes(content)
    elif damage == "cut":
        file.write_bytes(content[:-4])
    else:
        file.unlink()
    with pytest.raises(SeqloomError, match=f"{name} is damaged") as caught:
        checkpoints.restore(toy())
    assert "remove" in caught.value.hint


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"sha256": {}, "stepp": 3}', '{"step": 3}'])
def test_a_state_that_cannot_be_read_is_named(tmp_path: Path, toy: Build, content: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, toy(), 5)
    (tmp_path / "step-5" / "state.json").write_text(content)
    with pytest.raises(SeqloomError, match=r"state\.json cannot be read"):
        checkpoints.restore(toy())


def test_the_checkpoint_before_a_damaged_one_can_be_used(tmp_path: Path, toy: Build) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, toy(), 5)
    _save(checkpoints, toy(), 10)
    for file in (tmp_path / "step-10").iterdir():
        file.unlink()
    (tmp_path / "step-10").rmdir()
    restored = checkpoints.restore(toy())
    assert restored is not None
    assert restored[1].step == 5


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_weights_that_do_not_fit_are_an_error(tmp_path: Path, toy: Build, change: str) -> None:
    weights = weights_of(toy())
    if change == "missing":
        del weights["output.bias"]
    elif change == "unknown":
        weights["output.bios"] = torch.zeros(1)
    else:
        weights["output.bias"] = torch.zeros(99)
    save_file(weights, tmp_path / "w")
    with pytest.raises(SeqloomError, match=r"do not fit this model: output\.bi[ao]s is") as caught:
        load_weights(toy(), tmp_path / "w")
    assert "another run" in caught.value.hint


@pytest.mark.parametrize("content", [None, b"", b"not safetensors at all"])
def test_a_file_that_is_not_a_weights_file_is_an_error(
    tmp_path: Path, toy: Build, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "w").write_bytes(content)
    with pytest.raises(SeqloomError, match=r"weights file .* cannot be read"):
        load_weights(toy(), tmp_path / "w")


def test_the_state_is_readable(tmp_path: Path, toy: Build) -> None:
    _save(Checkpoints(tmp_path), toy(), 5)
    state = json.loads((tmp_path / "step-5" / "state.json").read_text())
    assert state["step"] == 5
    assert set(state["sha256"]) == {"model.safetensors", "training.safetensors"}


def test_the_average_of_the_last_checkpoints(tmp_path: Path, toy: Build) -> None:
    model, checkpoints = toy(), Checkpoints(tmp_path)
    for step in (1, 2, 3):
        for weight in model.parameters():
            nn.init.constant_(weight, float(step))
        _save(checkpoints, model, step, best_step=3)
    checkpoints.average(model, 2)
    assert all((weight == 2.5).all() for weight in model.parameters())
    checkpoints.save_average(model, [2, 3], best=True)
    assert (load_file(tmp_path / "best" / "model.safetensors")["output.bias"] == 2.5).all()
    assert checkpoints.steps() == [1, 2, 3]


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_renamed_if_an_earlier_one_is_intact(
    tmp_path: Path, toy: Build, name: str
) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, toy(), 5, best_step=5)
    _save(checkpoints, toy(), 10, best_step=5)
    _save(checkpoints, toy(), 15, best_step=15)
    _flip(tmp_path / "step-15" / name)
    (note,) = checkpoints.recover()
    assert f"step-15/{name}" in note
    assert note.endswith("training continues from step 10.")
    assert checkpoints.steps() == [5, 10]
    assert (tmp_path / "damaged-step-15" / name).is_file()
    assert os.readlink(tmp_path / "best") == "step-10"
    restored = checkpoints.restore(toy())
    assert restored is not None
    assert restored[1].step == 10
    assert os.readlink(tmp_path / "best") == "step-5"
    assert checkpoints.recover() == []


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def test_a_damaged_checkpoint_is_kept_if_it_is_the_only_one(tmp_path: Path, toy: Build) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, toy(), 5, best_step=5)
    _flip(tmp_path / "step-5" / "model.safetensors")
    assert checkpoints.recover() == []  # restoring it reports the error
    assert checkpoints.steps() == [5]


def test_the_checkpoint_that_is_served_is_not_removed(tmp_path: Path, toy: Build) -> None:
    """The best checkpoint could not be saved, so `best` still points to an earlier one."""
    model, checkpoints = toy(), Checkpoints(tmp_path, keep=1)
    _save(checkpoints, model, 5, best_step=5)
    _save(checkpoints, model, 10, best_step=7)
    _save(checkpoints, model, 15, best_step=7)
    assert checkpoints.steps() == [5, 15]
    assert (tmp_path / "best" / "model.safetensors").is_file()


def test_an_old_checkpoint_that_cannot_be_read_is_ignored(tmp_path: Path, toy: Build) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, toy(), 5)
    (tmp_path / "step-5" / "state.json").write_text("{")
    _save(checkpoints, toy(), 10)
    assert checkpoints.steps() == [5, 10]


def test_a_damaged_checkpoint_is_not_averaged(tmp_path: Path, toy: Build) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        _save(checkpoints, toy(), step)
    _flip(tmp_path / "step-1" / "model.safetensors")
    with pytest.raises(SeqloomError, match=r"step-1/model\.safetensors is damaged"):
        checkpoints.average(toy(), 2)


@pytest.mark.parametrize("best", [True, False])
def test_a_crash_before_the_average_was_linked_is_repaired(tmp_path: Path, toy: Build, best: bool) -> None:
    model, checkpoints = toy(), Checkpoints(tmp_path)
    for step in (1, 2):
        _save(checkpoints, model, step, best_step=2)
    checkpoints.save_average(model, [1, 2], best=best)
    os.remove(tmp_path / "best")
    os.symlink("step-2", tmp_path / "best")
    checkpoints.restore(model)
    assert os.readlink(tmp_path / "best") == ("average" if best else "step-2")


WRONG: list[dict[str, object]] = [
    {"step": "5"},
    {"step": 6},
    {"step": -5},
    {"step": None},
    {"epoch": 1.5},
    {"batch": -1},
    {"batch": 10**30},
    {"seconds": "now"},
    {"seconds": math.inf},
    {"best": []},
    {"best": "high"},
    {"best_step": {}},
    {"finished": True},
    {"finished": None},
    {"interim": 3},
    {"sha256": []},
    {"sha256": None},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_resealed_state_with_wrong_values_is_named(
    tmp_path: Path, toy: Build, wrong: dict[str, object]
) -> None:
    _save(Checkpoints(tmp_path), toy(), 5, best_step=5)
    file = tmp_path / "step-5" / "state.json"
    write_json(file, sealed({**unsealed(json.loads(file.read_text())), **wrong}))
    with pytest.raises(SeqloomError, match=r"step-5/state\.json cannot be read"):
        Checkpoints(tmp_path).restore(toy())


def test_a_best_validation_of_nan_written_by_an_older_version_is_ignored(tmp_path: Path, toy: Build) -> None:
    state = TrainState(step=5, best=math.nan, best_step=5)
    Checkpoints(tmp_path).save(weights_of(toy()), {}, state)
    restored = Checkpoints(tmp_path).restore_state()
    assert restored == TrainState(step=5)


def test_every_changed_bit_of_the_state_is_detected(tmp_path: Path, toy: Build) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, toy(), 5, best_step=5)
    file = tmp_path / "step-5" / "state.json"
    content = file.read_bytes()
    noticed = 0
    for bit in range(0, 8 * len(content), 7):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        try:
            restored = checkpoints.restore(toy())
        except SeqloomError as error:
            noticed += "state.json cannot be read" in error.message
        else:  # white space
            assert restored is not None
            assert restored[1] == _state(5, best_step=5)
            noticed += 1
    assert noticed == len(range(0, 8 * len(content), 7))
