"""Warm starts from the weights of other runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.run.build import load_model
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.train import continue_run, create
from seqloom.tensors import read_tensors
from support.logs import unconfigured_logging

WORDS = ["red", "blue", "dog", "cat", "runs", "sits", "the", "a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of words, pairs of the same words, and a masked and a denoising run over the text."""
    made = tmp_path_factory.mktemp("warm")
    lines = [" ".join(WORDS[(i * step) % 8] for step in (1, 3, 5, 7)) for i in range(64)]
    lines = [f"{line} {WORDS[i // 8]}" for i, line in enumerate(lines)]
    (made / "text.txt").write_text("".join(f"{line}\n" for line in lines))
    (made / "pairs.tsv").write_text("".join(f"{line}\t{line}\n" for line in lines))
    (made / "other.txt").write_text("one two three\n" * 4)
    run(made, "text.txt", "mlm", model="mlm")
    run(made, "text.txt", "denoising", model="transformer", **{"data.noise.kind": "infill"})
    return made


def run(
    folder: Path, data: str, out: str, *, model: str = "transformer", quiet: bool = True, **settings: Any
) -> Run:
    options = {
        "data.train": str(folder / data),
        "model.name": model,
        "model.size": "tiny",
        "text.tokenizer": "word",
        "train.max_steps": 2,
        **settings,
    }
    made = create(compose(None, options), folder / out, quiet=quiet)
    continue_run(made, quiet=quiet)
    return made


def report(run: Run) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((run.folder / "warm-start.json").read_text())
    return told


def test_an_encoder_starts_from_a_masked_run(folder: Path) -> None:
    before = str(folder / "mlm")
    started = run(folder, "pairs.tsv", "tuned", **{"train.init_from": before})
    theirs, first = read_tensors(Run.open(before).weights()), read_tensors(started.initial_file)
    shared = [name for name in first if name.startswith(("encoder.", "source_embedding."))]
    assert len(shared) > 10
    assert all(torch.equal(first[name], theirs[name]) for name in shared)
    told = report(started)
    assert set(told["fresh"]) == {name for name in first if name.startswith("decoder")}
    assert set(told["loaded"].values()) == {before}
    assert told["unused"] == {} and told["other_shape"] == {}
    assert started.tokenizers().fingerprint == Run.open(before).tokenizers().fingerprint


def test_both_sides_start_from_a_denoising_run(folder: Path) -> None:
    started = run(folder, "pairs.tsv", "both", **{"train.init_from": str(folder / "denoising")})
    assert report(started)["fresh"] == []
    theirs = read_tensors(Run.open(folder / "denoising").weights())
    first = read_tensors(started.initial_file)
    assert all(torch.equal(first[name], theirs[name]) for name in theirs)
    trained, _ = load_model(started)
    assert any(not torch.equal(weight, first[name]) for name, weight in trained.state_dict().items())


def test_the_first_of_two_runs_wins(folder: Path) -> None:
    runs = (str(folder / "mlm"), str(folder / "denoising"))
    loaded = report(run(folder, "pairs.tsv", "two", **{"train.init_from": runs}))["loaded"]
    assert {name.split(".")[0] for name, origin in loaded.items() if origin == runs[1]} == {
        "decoder",
        "decoder_norm",
    }


def test_weights_that_do_not_fit_are_recorded(folder: Path) -> None:
    options = {"train.init_from": str(folder / "mlm"), "model.ffn": 50, "model.layers": 1}
    told = report(run(folder, "pairs.tsv", "smaller", **options))
    assert set(told["other_shape"]) == {
        "encoder.0.ffn.expand.weight",
        "encoder.0.ffn.expand.bias",
        "encoder.0.ffn.contract.weight",
    }
    assert {name.split(".")[1] for name in told["unused"][options["train.init_from"]]} == {"1"}


def test_the_summary_is_by_part_of_the_model(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with unconfigured_logging():
        run(folder, "pairs.tsv", "loud", quiet=False, **{"train.init_from": str(folder / "mlm")})
    said = capfd.readouterr().err
    assert "start: decoder: fresh" in said
    assert f"parameters from {folder / 'mlm'}" in said


def test_nothing_fits(folder: Path) -> None:
    with pytest.raises(SeqloomError, match=r"No weight matrix of .*mlm fits this model"):
        run(folder, "pairs.tsv", "unlike", **{"train.init_from": str(folder / "mlm"), "model.width": 40})
    assert not (folder / "unlike").exists()


def test_runs_with_different_tokenizers(folder: Path) -> None:
    run(folder, "other.txt", "other", model="lm")
    runs = (str(folder / "mlm"), str(folder / "other"))
    with pytest.raises(SeqloomError, match="have different tokenizers"):
        run(folder, "pairs.tsv", "mixed", **{"train.init_from": runs})


@pytest.mark.parametrize("before", ["mlm", "denoising"])
def test_the_default_model_is_that_of_the_run_to_start_from(folder: Path, before: str) -> None:
    theirs = Run.open(folder / before).config().model.model_dump()
    start = {"train.init_from": str(folder / before)}
    ours = compose(None, {**start, "model.dropout": 0.4}).model.model_dump()
    assert (ours["name"], ours["dropout"]) == ("transformer", 0.4)
    assert all(ours[key] == theirs[key] for key in ("width", "layers", "heads", "ffn", "size"))
    assert compose(None, {**start, "model.size": "small"}).model.model_dump()["width"] != theirs["width"]
