"""One bit of any file of a run changes: a sentence that names the file, or the same answers and weights."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.data.tasks import generate
from seqloom.errors import SeqloomError
from seqloom.files import sealed, write_json
from seqloom.run.directory import Run
from seqloom.run.load import load
from seqloom.run.train import continue_run
from seqloom.system import cache_folder
from support.configs import FOUR_STEPS, TINY
from support.logs import unconfigured_logging
from support.runs import train_run, write_lines

SETTINGS: dict[str, Any] = {**TINY, **FOUR_STEPS, "text.joint": False, "train.batch_tokens": 400}
# What tells people what happened; nothing is computed from it.
TOLD = ("log.txt", "metrics.jsonl", "data-report.json")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`second`, which started from `first`; `cut` and `fresh` are it after two steps, and before the first."""
    folder = tmp_path_factory.mktemp("damage")
    examples = generate("copy", 60, seed=1)
    table = write_lines(folder / "pairs.tsv", (f"{one.source}\t{one.target}" for one in examples))
    train_run(folder / "first", table, SETTINGS)
    train_run(folder / "second", table, {**SETTINGS, "train.init_from": str(folder / "first")})
    write_json(folder / "second" / "alignment.json", sealed({"layer": 0, "head": 1, "later": False}))
    for name in ("cut", "fresh"):
        shutil.copytree(folder / "second", folder / name, symlinks=True)
    shutil.rmtree(folder / "cut" / "checkpoints" / "step-4")
    shutil.rmtree(folder / "fresh" / "checkpoints")
    return folder


def answers(run: Path) -> object:
    """What the run translates, with everything that is told of it."""
    found = load(run, device="cpu").translate(["1 2 3", "7"], nbest=2)
    return [(h.text, h.score, h.tokens, h.token_log_probs, h.alignment) for line in found for h in line]


def weights(run: Path) -> object:
    """What the run ends with when it is resumed."""
    continue_run(Run.open(run), quiet=True)
    last = run / "checkpoints" / "step-4"
    return [(last / name).read_bytes() for name in ("model.safetensors", "training.safetensors")]


def _flips(folder: Path, draw: random.Random, each: int) -> Iterator[tuple[Path, int]]:
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and "best" not in path.parts):
        for _ in range(each):
            yield file.relative_to(folder), draw.randrange(8 * max(1, file.stat().st_size))


def _flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def _or_sentence(behave: Callable[[Path], object], run: Path) -> object:
    try:
        return behave(run)
    except SeqloomError as error:
        return error


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("each", [2, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name, behave",
    [("second", answers), ("cut", weights), ("fresh", weights)],
    ids=["translate", "resume", "begin"],
)
def test_no_bit_changes_unnoticed(
    runs: Path, tmp_path: Path, name: str, behave: Callable[[Path], object], each: int
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(runs / name, whole, symlinks=True)
    expected = behave(whole)
    noticed = set()
    for file, bit in _flips(runs / name, random.Random(each), each):
        damaged = tmp_path / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(runs / name, damaged, symlinks=True)
        _flip(damaged / file, bit)
        found = _or_sentence(behave, damaged)
        if isinstance(found, SeqloomError):
            assert file.name in found.message, f"bit {bit} of {file}: {found.message}"
            assert file.name not in TOLD
            noticed.add(file.name)
        else:
            assert found == expected, f"bit {bit} of {file}"
    assert {"config.yaml", "source.model", "target.json"} <= noticed


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "second", run, symlinks=True)
    expected = weights(run)
    _flip(run / "checkpoints" / "step-4" / "training.safetensors", 5000)
    assert weights(run) == expected
    told = (run / "log.txt").read_text()
    assert "step-4/training.safetensors is damaged: its checksum does not match." in told
    assert "training continues from step 2." in told
    assert (run / "checkpoints" / "damaged-step-4").is_dir()
    assert answers(run) == answers(runs / "second")


def test_a_damaged_token_store_is_written_again(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs / "cut", tmp_path / "run", symlinks=True)
    shutil.copytree(runs / "cut", tmp_path / "whole", symlinks=True)
    expected = weights(tmp_path / "whole")
    stores = [file for file in (cache_folder() / "stores").rglob("*.bin") if file.stat().st_size]
    for file in stores:
        _flip(file, 9)
    capsys.readouterr()
    with unconfigured_logging():
        assert weights(tmp_path / "run") == expected
    told = capsys.readouterr().err
    assert "is damaged or outdated; writing it again." in told
    weights(tmp_path / "run")
    assert "writing it again" not in capsys.readouterr().err


def test_a_checkpoint_of_another_run_is_refused(runs: Path, tmp_path: Path) -> None:
    """It has the same shape and its own checksums, but its ids mean other words."""
    lines = (f"{e.source} 0\t{e.target} 0\n" for e in generate("reverse", 60, seed=2))
    text = "".join(lines).translate(str.maketrans("0123456789", "abcdefghij"))
    (tmp_path / "other.tsv").write_text(text, encoding="utf-8")
    train_run(tmp_path / "other", tmp_path / "other.tsv", SETTINGS)
    run = tmp_path / "run"
    shutil.copytree(runs / "cut", run, symlinks=True)
    shutil.copytree(tmp_path / "other" / "checkpoints" / "step-4", run / "checkpoints" / "step-4")
    with pytest.raises(
        SeqloomError, match=r"step-4 belongs to another run: it was trained with other tokenizers"
    ):
        load(run, checkpoint="step-4", device="cpu")
    shutil.rmtree(run / "checkpoints" / "step-2")
    with pytest.raises(SeqloomError, match="belongs to another run"):
        weights(run)
