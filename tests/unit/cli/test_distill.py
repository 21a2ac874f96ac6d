"""`seqloom distill`: from teachers to a student, with and without an interruption."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from seqloom.decode.mbr import sentence_utility
from seqloom.distillation import distill, translation
from seqloom.distillation.distill import Distillation
from seqloom.distillation.journal import Journal
from seqloom.run import train
from seqloom.run.directory import Run
from support.commands import Command, Result
from support.configs import TINY_TRANSFORMER, flags
from support.golden import GOLDEN, golden_run
from support.runs import write_lines

TEACHER = golden_run("transformer")
OPTIONS = (*flags({**TINY_TRANSFORMER, "train.max_steps": 2, "search.longest": 10}), "--threads", 1)
Distill = Callable[..., Result]


@pytest.fixture(autouse=True)
def _golden_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the folder in which the recorded runs were trained: their data files are named from there."""
    monkeypatch.chdir(GOLDEN)


@pytest.fixture
def run_distill(command: Command, tmp_path: Path) -> Distill:
    """Return a function that distils a run with a beam of 2."""
    return lambda *words, teachers=(TEACHER,), out="d": command(
        "distill", *teachers, "--out", tmp_path / out, "--beam", 2, *OPTIONS, *words
    )


def read_pairs(file: Path) -> list[tuple[str, str]]:
    values = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [(value["source"], value["target"]) for value in values]


def test_the_student_learns_the_most_similar_outputs_of_the_teacher(
    run_distill: Distill, tmp_path: Path, command: Command
) -> None:
    text = write_lines(tmp_path / "more.txt", ["the cat sees the red dog .", "", "the dog"])
    done = run_distill("--text", text, "--similarity", "chrf")
    assert done.code == 0, done.err
    given = [line.split("\t") for line in Path("data/pairs.tsv").read_text().splitlines()]
    held_out = {source for source, _ in read_pairs(tmp_path / "d" / "valid.jsonl")}
    trained = [(source, target) for source, target in given if source not in held_out]
    lines = [*(source for source, _ in trained), "the cat sees the red dog .", "the dog"]
    found = command("translate", TEACHER, "--beam", 2, "--nbest", 2, "--json", given="\n".join(lines) + "\n")
    outputs = [json.loads(line)["hypotheses"] for line in found.out.splitlines()]
    similarity = sentence_utility("chrf")
    expected = [
        max((one["text"] for one in many), key=lambda text: similarity(text, target))
        for many, (_, target) in zip(outputs, trained, strict=False)
    ] + [many[0]["text"] for many in outputs[-2:]]
    assert read_pairs(tmp_path / "d" / "distilled.jsonl") == list(zip(lines, expected, strict=True))
    report = json.loads((tmp_path / "d" / "report.json").read_text())
    assert report["selection"]["lines"]["counts"] == {"empty line": 1}
    assert report["training"]["steps"] == 2


def test_the_student_has_the_tokenizers_of_the_teacher_and_both_are_compared(
    run_distill: Distill, tmp_path: Path, command: Command
) -> None:
    done = run_distill("--json", "--engine", "torch")
    assert done.code == 0, done.err
    teacher, student = Run.open(TEACHER), Run.open(tmp_path / "d" / "student")
    assert student.tokenizers().fingerprint == teacher.tokenizers().fingerprint
    assert student.config().text == teacher.config().text
    model = student.config().model.model_dump()
    assert (model["layers"], model["decoder_layers"], model["width"]) == (1, 1, 16)  # the given sizes win
    assert (student.config().train.metrics, student.config().train.best_by) == (("bleu",), "bleu")
    systems = json.loads(done.out)["evaluation"]
    assert [one["name"] for one in systems] == ["teacher", "student"]
    assert all(one["sentences_per_second"] > 0 and one["engine"] == "torch" for one in systems)
    valid = tmp_path / "d" / "valid.jsonl"
    for folder, system in zip((TEACHER, student.folder), systems, strict=True):
        evaluated = json.loads(command("evaluate", folder, valid, "--json", "--engine", "torch").out)
        assert [one["value"] for one in system["scores"]] == [one["value"] for one in evaluated["scores"]]
        assert [one["low"] for one in system["scores"]] == [one["low"] for one in evaluated["scores"]]
        info = json.loads(command("info", folder, "--json").out)
        assert system["parameters"] == info["parameters"]


def test_the_default_student_has_a_deep_encoder_and_the_width_of_the_teacher(
    command: Command, tmp_path: Path
) -> None:
    steps = ("--set", "train.max_steps=1", "--set", "search.longest=10", "--nbest", 1, "--threads", 1)
    done = command("distill", TEACHER, "--out", tmp_path / "d", *steps)
    assert done.code == 0, done.err
    teacher, student = (Run.open(run).config().model for run in (TEACHER, tmp_path / "d" / "student"))
    expected = {**teacher.model_dump(), "layers": 6, "decoder_layers": 1}
    assert student.model_dump() == expected
    assert "sentences per second" in done.out
    other = command(
        "distill", TEACHER, "--out", tmp_path / "l", *steps, "--student", "lstm-dot", "--size", "tiny"
    )
    assert other.code == 0, other.err
    assert Run.open(tmp_path / "l" / "student").config().model.name == "lstm-dot"


def test_the_given_training_metric_selects_the_checkpoint(run_distill: Distill, tmp_path: Path) -> None:
    assert run_distill("--metrics", "chrf,bleu", out="first").code == 0
    assert Run.open(tmp_path / "first" / "student").config().train.best_by == "chrf"
    assert run_distill("--set", "train.metrics=ter", out="set").code == 0
    train_options = Run.open(tmp_path / "set" / "student").config().train
    assert (train_options.metrics, train_options.best_by) == (("ter",), "loss")


def _stop(*arguments: Any, **options: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("phase", ["translate", "select", "train", "evaluate", "report"])
def test_an_interruption_in_any_phase_does_not_change_the_result(
    run_distill: Distill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    monkeypatch.setattr(translation, "CHUNK_LINES", 60)
    assert run_distill(out="whole").code == 0
    name = {"translate": "translate_rest", "select": "select", "train": "train_student", "evaluate": "measure"}
    with monkeypatch.context() as patched:
        if phase == "report":
            patched.setattr(Distillation, "_report", _stop)
        elif phase == "translate":
            append = Journal.append
            patched.setattr(
                Journal,
                "append",
                lambda journal, chunk: append(journal, chunk) if journal.items < 100 else _stop(),
            )
        else:
            patched.setattr(distill, name[phase], _stop)
        assert run_distill(out="parts").code == 130
        assert not (tmp_path / "parts" / "report.json").exists()
    done = run_distill(out="parts")
    assert done.code == 0, done.err
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for file in ("distilled.jsonl", "valid.jsonl", "translations.jsonl", "selection.json"):
        assert (whole / file).read_bytes() == (parts / file).read_bytes(), file
    weights = [Run.open(folder / "student").weights().read_bytes() for folder in (whole, parts)]
    assert weights[0] == weights[1]
    again = run_distill(out="parts")
    assert (again.code, again.out) == (0, done.out)


def test_training_that_was_asked_to_stop_is_continued(
    run_distill: Distill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(train, "stop_on_signals", lambda: nullcontext(lambda: True))  # as after Ctrl-C
        stopped = run_distill()
    assert (stopped.code, "same command continues" in stopped.out) == (0, True), stopped.err
    assert (tmp_path / "d" / "student").is_dir()
    assert run_distill().code == 0
    assert json.loads((tmp_path / "d" / "report.json").read_text())["training"]["steps"] == 2


def test_an_ensemble_is_one_teacher(run_distill: Distill, tmp_path: Path, command: Command) -> None:
    done = run_distill("--nbest", 1, teachers=(TEACHER, golden_run("lstm")))
    assert done.code == 0, done.err
    pairs = read_pairs(tmp_path / "d" / "distilled.jsonl")
    lines = "".join(f"{source}\n" for source, _ in pairs)
    found = command("translate", TEACHER, "--ensemble", golden_run("lstm"), "--beam", 2, given=lines)
    assert [target for _, target in pairs] == found.out.splitlines()
    teacher = json.loads((tmp_path / "d" / "report.json").read_text())["evaluation"][0]
    assert (teacher["model"], len(teacher["runs"])) == ("transformer + lstm-additive", 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--similarity", "ter"), "no similarity called 'ter'"),
        (("--metrics", "blue"), "no metric called 'blue'"),
        (("--nbest", "3"), "search.nbest=3 exceeds search.beam=2"),
        (("--student", "tranformer"), "no model called 'tranformer'"),
        (("--set", "model.size=huge"), "huge"),
        (("--minutes", "-1"), "train.max_minutes"),
        (("--set", "text.vocab_size=9"), "text.vocab_size cannot be set"),
        (("--set", "data.train=x.tsv"), "data.train cannot be set"),
        (("--set", "train.init_from=runs/x"), "train.init_from cannot be set"),
        (("--text", "missing.txt"), "no file missing.txt"),
        (("--text", "-"), "Standard input can be read only once"),
        (("--ensemble-space", "log"), "needs several runs"),
    ],
)
def test_user_errors(run_distill: Distill, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = run_distill(*words)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not list(tmp_path.glob("d/*"))


def test_a_teacher_must_have_pairs(run_distill: Distill, tmp_path: Path) -> None:
    done = run_distill(teachers=(golden_run("lm"),))
    assert (done.code, "was not trained on pairs" in done.err) == (2, True)
    imported = tmp_path / "imported"
    shutil.copytree(TEACHER, imported, symlinks=True)
    text = (imported / "config.yaml").read_text().replace("  train:\n  - data/pairs.tsv\n", "  train: []\n", 1)
    (imported / "config.yaml").write_text(text[: text.index("# sha256")])
    done = run_distill(teachers=(imported,))
    assert (done.code, "was imported" in done.err, "--init-from" in done.err) == (2, True, True), done.err


def test_other_options_cannot_continue_the_work(run_distill: Distill, tmp_path: Path) -> None:
    assert run_distill().code == 0
    other = run_distill("--nbest", 1)
    assert (other.code, "other settings: strategy" in other.err) == (2, True), other.err
    (tmp_path / "used").mkdir()
    write_lines(tmp_path / "used" / "notes.txt", ["mine"])
    assert "not empty" in run_distill(out="used").err


def test_it_is_an_error_if_no_pair_is_left(run_distill: Distill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.distillation.selection.is_usable", lambda candidate, reference: False)
    done = run_distill()
    assert (done.code, "No pair is left" in done.err) == (2, True), done.err
