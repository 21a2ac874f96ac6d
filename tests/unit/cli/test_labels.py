"""Taggers and classifiers on the command line: outputs, metrics, confusion matrix, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import seqloom
from seqloom.evaluate.labels import Confusion
from support.commands import Command
from support.configs import flags
from support.runs import LABELS, SharedRuns, write_lines

LINES = [f"{i % 7} {i % 5}\tA{i % 2} B{i % 3}" for i in range(60)]
TAGGER = ("--model", "bilstm-tagger", *flags({**LABELS, "model.width": 16}))
CLASSIFIER = ("--model", "bilstm-classifier", *flags({**LABELS, "model.width": 16}))


@pytest.fixture(scope="module")
def folder(shared_runs: SharedRuns) -> Path:
    return shared_runs.build("tagger", "classifier")


def test_a_tagger_learns_from_pairs_and_gives_one_tag_per_word(command: Command, tmp_path: Path) -> None:
    pairs = write_lines(tmp_path / "pairs.tsv", ("the man can fish\tD N X V", "man the\tN D") * 10)
    settings = flags(
        {**LABELS, "train.max_steps": 60, "model.width": 32, "model.dropout": 0, "train.warmup": 5}
    )
    done = command(
        "train",
        pairs,
        "--out",
        tmp_path / "run",
        "--model",
        "bilstm-tagger",
        *settings,
        "--set",
        "train.learning_rate=0.01",
    )
    assert done.code == 0, done.err
    tagged = command("translate", tmp_path / "run", given="fish can the man\nthe man\n")
    assert tagged.out.splitlines()[1] == "D N"
    assert len(tagged.out.splitlines()[0].split()) == 4


@pytest.mark.parametrize("name", ["tagger", "classifier"])
def test_labels_are_evaluated_by_accuracy_and_macro_f1(folder: Path, command: Command, name: str) -> None:
    data = folder / ("tags.tsv" if name == "tagger" else "clips.tsv")
    done = command("evaluate", folder / name, data, "--json")
    assert done.code == 0, done.err
    assert [score["name"] for score in json.loads(done.out)["scores"]] == ["accuracy", "macro-f1"]


@pytest.mark.parametrize("name", ["tagger", "classifier"])
def test_the_confusion_matrix_counts_the_outputs(
    folder: Path, command: Command, tmp_path: Path, name: str
) -> None:
    data = folder / ("tags.tsv" if name == "tagger" else "clips.tsv")
    picture = tmp_path / "a.png"
    done = command("inspect", "confusion", folder / name, data, "--json", "--out", picture)
    assert done.code == 0, done.err
    sources, targets = zip(*(line.split("\t") for line in data.read_text().splitlines()), strict=True)
    given = [str(folder / source) for source in sources] if name == "classifier" else list(sources)
    outputs = [best[0].text for best in seqloom.load(folder / name).translate(given)]
    assert json.loads(done.out) == Confusion.of(outputs, targets).to_dict()
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = command("inspect", "confusion", folder / name, data).out
    assert "precision" in table and "macro F1" in table


def test_labels_that_the_model_does_not_know_are_reported(
    folder: Path, command: Command, tmp_path: Path
) -> None:
    test = write_lines(tmp_path / "test.tsv", ["1 2\tA0 Q", "3\tR"])
    for words in (("evaluate",), ("inspect", "confusion")):
        done = command(*words, folder / "tagger", test)
        assert done.code == 0
        assert "2 test labels are not in the training data and count as errors: 'Q', 'R'" in done.err


@pytest.mark.parametrize(
    ("model", "line", "message"),
    [
        (TAGGER, "1 2 3\tA0 B1", "line 61: the source has 3 words, but the target has 2 tags"),
        (CLASSIFIER, "1 2\tA0 B1", "the target has 2 words, but a class is one word"),
    ],
)
def test_a_wrong_number_of_labels_names_the_line(
    command: Command, tmp_path: Path, model: tuple[str, ...], line: str, message: str
) -> None:
    lines = [*LINES, line] if model is TAGGER else [*("1 2\tA" for _ in range(20)), line]
    done = command("train", write_lines(tmp_path / "a.tsv", lines), "--out", tmp_path / "run", *model)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not (tmp_path / "run").exists()


def test_a_label_that_only_the_validation_data_has_is_an_error(command: Command, tmp_path: Path) -> None:
    data, valid = write_lines(tmp_path / "a.tsv", LINES), write_lines(tmp_path / "b.tsv", ["1 2\tA0 Q"])
    done = command("train", data, "--valid", valid, "--out", tmp_path / "run", *TAGGER)
    assert done.code == 2
    assert "b.tsv, line 1: the label 'Q' is in the validation data, but not in the training data" in done.err


@pytest.mark.parametrize(
    "option", ["train.word_dropout=0.1", "data.long=truncate", "text.tokenizer=word text.byte_fallback=false"]
)
def test_options_that_change_words_are_refused(command: Command, tmp_path: Path, option: str) -> None:
    data = write_lines(tmp_path / "a.tsv", LINES)
    given = [part for one in option.split() for part in ("--set", one)]
    done = command("train", data, "--out", tmp_path / "run", *TAGGER, *given)
    assert done.code == 2
    assert option.split()[-1].partition("=")[0].partition(".")[2] in done.err
