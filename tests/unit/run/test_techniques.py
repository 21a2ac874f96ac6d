"""Training techniques in a run: exact resume, plain validation, and errors where they are not supported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.batching import Position
from seqloom.errors import SeqloomError
from seqloom.run import train as pipeline
from seqloom.run.build import load_model
from seqloom.run.config import compose
from seqloom.run.train import continue_run
from support.configs import FOUR_STEPS, TINY, TINY_TRANSFORMER
from support.runs import create_run, train_run, write_lines

SUBWORDS: dict[str, Any] = {
    **TINY,
    **FOUR_STEPS,
    "text.tokenizer": "bpe",
    "text.vocab_size": 300,
    "train.batch_tokens": 60,
}
ALL: dict[str, Any] = {
    **SUBWORDS,
    "text.sampling": "both",
    "text.sampling_alpha": 0.4,
    "train.word_dropout": 0.2,
    "train.rdrop": 2.0,
    "model.dropout": 0.2,
    "model.tag_positions": False,
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    words = ("lower", "newer", "widest", "walking")
    lines = (f"<V> <P{i % 3}> {words[i % 4]} {words[i % 3]}\t{words[i % 4]} {i % 5}" for i in range(60))
    return write_lines(tmp_path / "pairs.tsv", lines)


@pytest.mark.parametrize("stream", [False, True], ids=["store", "stream"])
def test_a_resumed_run_equals_an_uninterrupted_one(table: Path, tmp_path: Path, stream: bool) -> None:
    settings = {**ALL, "data.stream": stream, "data.shuffle_buffer": 40}
    whole = train_run(tmp_path / "whole", table, {**settings, "train.max_steps": 8})
    parts = train_run(tmp_path / "parts", table, settings)
    continue_run(parts, limits=["train.max_steps=8"], quiet=True)
    files = [
        run.folder / "checkpoints" / "step-8" / name
        for run in (whole, parts)
        for name in ("model.safetensors", "training.safetensors")
    ]
    first, moments, resumed, resumed_moments = (file.read_bytes() for file in files)
    assert first == resumed
    assert moments == resumed_moments


def test_every_technique_changes_the_result(table: Path, tmp_path: Path) -> None:
    plain = {**SUBWORDS, "model.dropout": 0.2}
    weights = []
    for name in (None, "text.sampling", "train.word_dropout", "train.rdrop", "model.tag_positions"):
        run = train_run(tmp_path / str(name), table, plain | ({name: ALL[name]} if name else {}))
        weights.append(load_model(run)[0].state_dict()["output.weight"])
    for number, first in enumerate(weights):
        assert not any(torch.equal(first, other) for other in weights[:number])


def test_validation_batches_are_not_random(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []

    class Validator(pipeline.Validator):
        def __init__(
            self, model: Any, config: Any, search: Any, prepared: Any, make_batch: Any, *rest: Any
        ) -> None:
            super().__init__(model, config, search, prepared, make_batch, *rest)
            indices = np.arange(len(prepared.valid))
            batches.extend(make_batch(prepared.valid, indices, Position(0, n)) for n in range(3))
            stored = [prepared.valid.source(i).tolist() for i in indices]
            assert [
                row[: len(ids)].tolist() for row, ids in zip(batches[0].source, stored, strict=True)
            ] == stored

    monkeypatch.setattr(pipeline, "Validator", Validator)
    train_run(tmp_path / "run", table, ALL)
    assert all(torch.equal(batch.source, batches[0].source) for batch in batches)
    assert all(torch.equal(batch.target_in, batches[0].target_in) for batch in batches)


@pytest.mark.parametrize("tokenizer", ["word", "char", "bpe"])
def test_the_order_of_tags_has_no_effect_without_their_positions(
    table: Path, tmp_path: Path, tokenizer: str
) -> None:
    settings = {**SUBWORDS, "text.tokenizer": tokenizer, "model.tag_positions": False}
    run = train_run(tmp_path / "run", table, settings)
    translator = pipeline.load(run.folder)
    lines = ["<V> <P1> lower", "<P1> <V> lower", "<P1> lower"]
    (one,), (same,), (other,) = translator.translate(lines, beam=1, nbest=1)
    assert same.score == pytest.approx(one.score, abs=1e-5)
    assert other.score != pytest.approx(one.score, abs=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"model.name": "phrase", "text.tokenizer": "bpe", "text.sampling": "both"},
            "phrase is fitted.*text.sampling=both",
        ),
        ({"model.name": "hmm", "train.word_dropout": 0.1}, "hmm is fitted.*train.word_dropout=0.1"),
        ({"model.name": "hmm", "train.rdrop": 1}, "hmm is fitted.*train.rdrop=1"),
        ({"model.name": "lstm-dot", "model.tag_positions": False}, "tag_positions"),
        ({"model.name": "mlm", "train.word_dropout": 0.1}, "train.word_dropout=0.1 .*data.noise.kind=mask"),
        ({"model.name": "mlm", "text.sampling": "target"}, "text.sampling=target .*data.noise.kind=mask"),
        ({"model.name": "lm", "data.format": "text", "text.sampling": "source"}, "no effect on plain text"),
        ({"model.name": "transformer-syntax", "text.sampling": "both"}, "dependency trees"),
        ({"model.positions": "rotary", "model.tag_positions": False}, "sinusoidal, learned, not rotary"),
        ({"model.positions": "none", "model.tag_positions": False}, "sinusoidal, learned, not none"),
        ({"model.dropout": 0, "train.rdrop": 1}, "model.dropout=0"),
        ({"train.rdrop": -1}, "train.rdrop"),
        ({"train.word_dropout": 1}, "train.word_dropout"),
    ],
)
def test_what_cannot_be_honoured_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        compose(values=values)


def test_sources_without_tags_are_an_error_before_anything_is_written(tmp_path: Path) -> None:
    table = write_lines(tmp_path / "plain.tsv", ["a b\tb a"] * 30)
    settings = {**TINY, **TINY_TRANSFORMER, "model.tag_positions": False}
    with pytest.raises(SeqloomError, match=r"model.tag_positions=false needs tags"):
        create_run(tmp_path / "run", table, settings)
    assert not (tmp_path / "run").exists()


def test_inherited_tokenizers_without_subwords_are_an_error(table: Path, tmp_path: Path) -> None:
    first = train_run(tmp_path / "first", table, {**TINY, **FOUR_STEPS})
    settings = {**SUBWORDS, "train.init_from": str(first.folder), "text.sampling": "source"}
    with pytest.raises(SeqloomError, match=r"text.sampling=source needs .* word"):
        create_run(tmp_path / "run", table, settings)
