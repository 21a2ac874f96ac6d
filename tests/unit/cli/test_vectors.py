"""Targets that are arrays: train, translate, evaluate, Python API, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seqloom
from seqloom.decode.vector_translator import VectorTranslator
from seqloom.run.load import load_run
from support.commands import Command
from support.configs import flags
from support.runs import write_lines

SMALL = {
    "model.size": "tiny",
    "model.width": 16,
    "text.tokenizer": "word",
    "data.valid_share": 0.2,
    "train.threads": 1,
    "train.max_steps": 2,
}


def table(folder: Path, *, distributions: bool = False) -> Path:
    """Write 30 pairs of letters, and an array with one row per letter."""
    rows = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]] if distributions else [[1.0, 50.0], [3.0, -50.0]])
    arrays = {str(i): rows[[i % 2, i % 3 % 2]] for i in range(30)}
    np.savez(folder / "arrays.npz", **arrays)
    return write_lines(
        folder / "pairs.tsv", (f"{'ab'[i % 2]} {'ab'[i % 3 % 2]}\tarrays.npz#{i}" for i in range(30))
    )


def train(command: Command, folder: Path, data: Path, model: str = "lstm-vectors", **settings: Any) -> Any:
    given = flags({**SMALL, **{key.replace("__", "."): value for key, value in settings.items()}})
    return command("train", data, "--out", folder / "run", "--model", model, *given)


@pytest.mark.parametrize("kind", ["vectors", "distributions"])
def test_a_run_writes_arrays_of_the_scale_of_its_data(command: Command, tmp_path: Path, kind: str) -> None:
    data = table(tmp_path, distributions=kind == "distributions")
    learn = {"train__max_steps": 120, "train__learning_rate": 0.02, "train__warmup": 5, "model__dropout": 0}
    done = train(command, tmp_path, data, text__target_tokenizer=kind, train__metrics="nmse", **learn)
    assert done.code == 0, done.err
    assert "nmse" in done.err
    out = command("translate", tmp_path / "run", given="a b\n\n")
    arrays = [json.loads(line) for line in out.out.splitlines()]
    expected = np.load(tmp_path / "arrays.npz")["4"]  # a b
    assert arrays[1] == []
    assert np.asarray(arrays[0]) == pytest.approx(expected, abs=0.1 * np.abs(expected).max())
    scores = json.loads(command("evaluate", tmp_path / "run", data, "--json").out)["scores"]
    assert scores[0]["name"] == "nmse" and scores[0]["value"] < 20
    translator = seqloom.load(tmp_path / "run")
    assert isinstance(translator, VectorTranslator)
    alone, together = translator.predict(["a b"])[0], translator.predict(["b", "a b", "b a b a"])[1]
    assert np.allclose(alone, together, atol=1e-4)
    assert np.allclose(alone, _by_hand(tmp_path / "run", "a b"), atol=1e-4)
    if kind == "distributions":
        assert alone.sum(1) == pytest.approx(np.ones(len(alone)))


def _by_hand(folder: Path, line: str) -> Any:
    """Decode by running the decoder again over all vectors so far, without a state."""
    opened = load_run(folder)
    model, tokenizers = opened.sequence_model(), opened.tokenizers
    from seqloom.data.batching import collate_ids

    found = np.zeros((0, tokenizers.vectors.size), np.float32)
    for _ in range(9):
        batch = collate_ids([tokenizers.source.encode(line)], [found], [0])
        with torch.no_grad():
            *numbers, end = model(batch)[0, len(found)].unbind()
        if end > 0:
            break
        last = torch.stack(numbers)
        last = last.softmax(-1) if tokenizers.target_kind == "distributions" else last
        found = np.concatenate((found, last.numpy()[None]))
    return found * np.array(tokenizers.vectors.settings.deviation) + np.array(tokenizers.vectors.settings.mean)


def test_outputs_that_do_not_end_have_a_flag(command: Command, tmp_path: Path) -> None:
    assert train(command, tmp_path, table(tmp_path)).code == 0
    translator = seqloom.load(tmp_path / "run")
    assert isinstance(translator, VectorTranslator)
    with torch.no_grad():
        translator.model.output.bias[-1] = -100.0
    (best,) = translator.with_search({"longest": 4}).translate("a b")
    assert (len(json.loads(best.text)), best.flags) == (3, ("cut",))


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.ones((2, 3)), "it has 3 features per frame; the training data has 2"),
        (np.array([[1.0, np.nan]]), "it contains a number that is not finite"),
        (np.ones((2, 2, 2)), "it is not a numeric array of shape (steps, features)"),
    ],
)
def test_unreadable_targets_are_reported(command: Command, tmp_path: Path, array: Any, reason: str) -> None:
    data = table(tmp_path)
    np.save(tmp_path / "bad.npy", array)
    with data.open("a") as file:
        file.write("a\tbad.npy\n")
    done = train(command, tmp_path, data)
    assert done.code == 0, done.err
    assert f"unreadable target: {reason}" in done.err
    report = json.loads((tmp_path / "run" / "data-report.json").read_text())
    assert [line["line"] for line in report["lines"]] == [31]


def test_rows_that_are_not_distributions_are_an_error(command: Command, tmp_path: Path) -> None:
    done = train(command, tmp_path, table(tmp_path), text__target_tokenizer="distributions")
    assert done.code == 2
    assert "unreadable target: row 1 sums to 51, not to 1" in done.err or "has a negative number" in done.err


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("transformer", {"text__target_tokenizer": "vectors"}, "The model transformer writes text"),
        ("lstm-vectors", {"text__target_tokenizer": "word"}, "The model lstm-vectors writes arrays"),
        ("lstm-vectors", {"train__label_smoothing": 0.1}, "train.label_smoothing=0.1 needs symbols"),
        ("transformer-vectors", {"train__rdrop": 1}, "train.rdrop=1 needs symbols"),
        ("lstm-vectors", {"train__word_dropout": 0.1}, "train.word_dropout=0.1 needs symbols"),
        ("lstm-bilinear", {}, "not write them"),
    ],
)
def test_wrong_combinations_are_errors(
    command: Command, tmp_path: Path, model: str, settings: dict[str, Any], message: str
) -> None:
    done = train(command, tmp_path, table(tmp_path), model, **settings)
    assert (done.code, message in done.err) == (2, True), done.err


def test_targets_that_are_text_are_an_error(command: Command, tmp_path: Path) -> None:
    done = train(command, tmp_path, write_lines(tmp_path / "a.tsv", ["a b\tc d"] * 20))
    assert done.code == 2
    assert "is not the path of a .wav, .npy or .npz file" in done.err


def test_operations_on_symbols_are_refused(command: Command, tmp_path: Path) -> None:
    data = table(tmp_path)
    assert train(command, tmp_path, data).code == 0
    run = tmp_path / "run"
    for words in (
        ("score", run, data),
        ("translate", run, tmp_path / "pairs.tsv", "--beam", "2"),
        ("translate", run, tmp_path / "pairs.tsv", "--sample"),
        ("evaluate", run, data, "--ensemble", run),
        ("export", run, "--to", "ctranslate2", "--out", tmp_path / "exported"),
    ):
        done = command(*words)
        assert done.code == 2, words
        assert done.err.startswith("error:") or "\nerror:" in done.err
