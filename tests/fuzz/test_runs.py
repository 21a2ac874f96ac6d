"""Untrusted model folders: a working model, or one error message."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import strategies as st
from safetensors.torch import load_file, save, save_file

from seqloom.inspect.doctor import RunHistory, diagnose
from seqloom.inspect.facts import describe
from seqloom.run.build import load_model
from seqloom.run.directory import Run
from seqloom.run.load import load, load_filler, load_generator, load_scorer
from seqloom.tensors import read_tensors
from support.random_state import random_state


def use(folder: Path) -> None:
    """Use a run as its command does."""
    run = Run.open(folder)
    name = run.config().model.name
    if name == "mlm":
        load_filler(folder, device="cpu").fill(["1 [MASK] 2"])
    elif name in ("ngram", "hmm-lm"):
        load_scorer(folder, device="cpu").score([("", "1 2 3")])
        load_generator(folder, device="cpu")
    elif name == "hmm-classifier":
        clip = Path(run.config().data.train[0]).with_name("0.npy")
        load(folder, device="cpu", workers=1).translate([str(clip), ""])
    else:
        load(folder, device="cpu", workers=1).translate(["1 2", ""])


def align(folder: Path) -> None:
    load(folder, device="cpu").translate(["1 2", ""], alignment=True)


def inspect(folder: Path) -> None:
    run = Run.open(folder)
    json.dumps(describe(run))
    report = json.loads((folder / "data-report.json").read_text())
    diagnose(RunHistory(run.config().train, run.metrics(), report, load_model(run)[0]))


def without_seal(content: bytes) -> bytes:
    """Return the file without its checksum, as an attacker could write it."""
    return re.sub(rb',\s*"seal": "\w+"|^# sha256.*', b"", content, flags=re.MULTILINE)


def copied(runs: Path, model: str, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(runs / model, folder, symlinks=True)
    return folder


FILES = {
    "config.yaml": use,
    "tokenizer/joint.json": use,
    "checkpoints/best/state.json": use,
    "metrics.jsonl": inspect,
    "alignment.json": align,
}


@pytest.mark.parametrize("file", FILES)
def test_damaged_files_of_a_run(file: str, runs: Path, tmp_path: Path, fuzz: Any, damage: Any) -> None:
    folder = copied(runs, "transformer", tmp_path)
    (folder / "alignment.json").write_text('{"layer": 0, "head": 1, "later": false}')
    FILES[file](folder)

    def check(content: bytes) -> None:
        (folder / file).write_bytes(content)
        FILES[file](folder)

    sealed = (folder / file).read_bytes()
    fuzz(damage(sealed, without_seal(sealed)), check, cost=5)


@pytest.mark.parametrize("model", ["transformer", "mlm", "ngram", "phrase", "hmm-lm", "hmm"])
def test_configs_of_another_shape(model: str, runs: Path, tmp_path: Path, fuzz: Any, reshape: Any) -> None:
    folder = copied(runs, model, tmp_path)
    use(folder)
    whole = yaml.safe_load((folder / "config.yaml").read_text())
    kept = {"model": whole["model"], "search": whole["search"]}

    def check(tree: Any) -> None:
        (folder / "config.yaml").write_text(json.dumps({**whole, **tree} if isinstance(tree, dict) else tree))
        use(folder)

    fuzz(reshape(kept), check, cost=5)


def test_metrics_of_another_shape(runs: Path, tmp_path: Path, fuzz: Any, reshape: Any) -> None:
    folder = copied(runs, "transformer", tmp_path)
    file = folder / "metrics.jsonl"
    entries = [json.loads(line) for line in file.read_text().splitlines()]

    def check(value: Any) -> None:
        lines = value if isinstance(value, list) else [value]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        inspect(folder)

    fuzz(reshape(entries), check, cost=5)


def test_records_of_another_shape(runs: Path, tmp_path: Path, fuzz: Any, reshape: Any) -> None:
    folder = copied(runs, "transformer", tmp_path)
    names = ("tokenizer/joint.json", "checkpoints/step-4/state.json", "data.json", "data-report.json")
    whole = {name: json.loads(without_seal((folder / name).read_bytes())) for name in names}

    def check(values: Any) -> None:
        for name in whole:
            (folder / name).write_text(json.dumps(values.get(name) if isinstance(values, dict) else values))
        use(folder)

    fuzz(reshape(whole), check, cost=5)


def forge(folder: Path, content: bytes) -> None:
    """Write weights with a matching checksum, as an attacker could."""
    file = folder / "checkpoints" / "best" / "model.safetensors"
    file.unlink()  # a new file: tensors of the previous case may still be mapped
    file.write_bytes(content)
    state = file.with_name("state.json")
    values = json.loads(without_seal(state.read_bytes()))
    state.write_text(json.dumps({**values, "sha256": {file.name: hashlib.sha256(content).hexdigest()}}))


@pytest.mark.parametrize("model", ["transformer", "mlm", "ngram", "phrase", "hmm-lm", "hmm", "hmm-classifier"])
def test_loading_and_using_a_run_keeps_the_random_state_of_the_caller(model: str, runs: Path) -> None:
    before = random_state()
    use(runs / model)
    assert random_state() == before


MODELS = ["transformer", "ngram", "phrase", "hmm-lm", "hmm", "hmm-classifier"]


@pytest.mark.parametrize("model", MODELS)
def test_forged_bytes_of_weights(model: str, runs: Path, tmp_path: Path, fuzz: Any, damage: Any) -> None:
    folder = copied(runs, model, tmp_path)

    def check(content: bytes) -> None:
        forge(folder, content)
        use(folder)

    fuzz(damage((folder / "checkpoints" / "best" / "model.safetensors").read_bytes()), check, cost=5)


DTYPES = [torch.float32, torch.int64, torch.bool, torch.float16, torch.int8, torch.complex64]


def changed(old: torch.Tensor, kind: str, value: float, number: int) -> torch.Tensor:
    """Return the tensor with other values, shape or type, or truncated."""
    if kind == "fill":
        place = torch.rand(old.shape, generator=torch.Generator().manual_seed(number)) < 0.3
        filling = torch.tensor(value if old.is_floating_point() else number - 2).to(old.dtype)
        return torch.where(place, filling, old)
    if kind == "shape":
        return old.reshape(-1, *[1] * number) if number else old.flatten()[:1]
    if kind == "type":
        return old.to(DTYPES[number])
    return old[: max(0, len(old) - 1 - number)]


@pytest.mark.parametrize("model", MODELS)
def test_forged_tensors(model: str, runs: Path, tmp_path: Path, fuzz: Any) -> None:
    folder = copied(runs, model, tmp_path)
    whole = load_file(folder / "checkpoints" / "best" / "model.safetensors")
    kinds = st.sampled_from(["drop", "fill", "shape", "type", "cut"])
    values = st.sampled_from([0.0, 1.0, -1.0, 1e30, float("nan"), float("inf"), -(2.0**31)])
    change = st.tuples(st.sampled_from(sorted(whole)), kinds, values, st.integers(0, 5))

    def check(changes: list[tuple[str, str, float, int]]) -> None:
        tensors = dict(whole)
        for name, kind, value, number in changes:
            old = tensors.pop(name, None)
            if old is not None and kind != "drop":
                tensors[name] = changed(old, kind, value, number).contiguous()
        forge(folder, save(tensors))
        use(folder)

    fuzz(st.lists(change, min_size=1, max_size=3), check, cost=5)


def test_forged_tokenizers(runs: Path, tmp_path: Path, fuzz: Any, damage: Any) -> None:
    folder = copied(runs, "transformer", tmp_path)
    model, record = folder / "tokenizer" / "joint.model", folder / "tokenizer" / "joint.json"
    values = json.loads(without_seal(record.read_bytes()))

    def check(content: bytes) -> None:
        model.write_bytes(content)
        record.write_text(json.dumps({**values, "model_sha256": hashlib.sha256(content).hexdigest()}))
        use(folder)

    fuzz(damage(model.read_bytes()), check, cost=5)


def test_tensor_files(tmp_path: Path, fuzz: Any, damage: Any) -> None:
    file = tmp_path / "a.safetensors"
    save_file({"a": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.int64)}, file)

    def check(content: bytes) -> None:
        file.unlink()
        file.write_bytes(content)
        for tensor in read_tensors(file).values():
            tensor.sum()

    fuzz(damage(file.read_bytes()), check, cost=5)
