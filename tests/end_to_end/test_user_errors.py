"""Whatever a person gets wrong is one sentence, exit code 2, and nothing half-written."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.commands import Command
from support.configs import TINY_TRANSFORMER, learner_flags

SHORT = {**TINY_TRANSFORMER, "train.max_steps": 2}
del SHORT["model.size"]  # it would override --size


def assert_sentence(done: Any, *fragments: str) -> None:
    assert done.code == 2, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.err
    for fragment in fragments:
        assert fragment in done.err
    assert sum(line.startswith("hint:  ") for line in done.err.splitlines()) <= 1


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files with something wrong in each."""
    folder = tmp_path_factory.mktemp("wrong")
    good = "".join(f"{i} {i}\t{i}\n" for i in range(20))
    contents: dict[str, bytes] = {
        "good.tsv": good.encode(),
        "latin.tsv": "1\t2\ncaf\u00e9\t3\n".encode("latin-1"),
        "no-tabs.tsv": b"1 2\n3 4\n5 6\t5\n",
        "empty.tsv": b"",
        "blank.tsv": b"\t\n",
        "long.tsv": good.encode() + b"1 2 3 4 5 6 7 8 9\t1\n",
        "one-long.tsv": b"1 2 3 4 5 6 7 8 9\t1\n",
        "pairs.docx": good.encode(),
        "cut.tsv.gz": gzip.compress(good.encode() * 50)[:60],
        "wrong.parquet": good.encode(),
        "three.txt": b"1\n2\n3\n",
        "five.txt": b"1\n2\n3\n4\n5\n",
        "broken.yaml": b"model: {name: [\n",
        "list.yaml": b"- model\n- train\n",
        "value.yaml": b"model: transformer\n",
        "binary.yaml": b"\xff\xfe\x00",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


# arguments after `seqloom train` ({} is the folder of files) → what the message must say
TRAIN: dict[str, tuple[str, tuple[str, ...]]] = {
    "missing file": ("{}/nowhere.tsv", ("nowhere.tsv", "No such file")),
    "missing validation file": ("{}/good.tsv --valid {}/nowhere.tsv", ("nowhere.tsv", "No such file")),
    "folder with a damaged file": ("{}", ("cut.tsv.gz is a damaged or incomplete gzip file",)),
    "pattern for nothing": ("{}/*.csv", ("No file matches", "*.csv")),
    "nothing given": ("", ("No train data given",)),
    "source alone": ("--source {}/three.txt", ("source and target must be given together",)),
    "valid target alone": ("{}/good.tsv --valid-target {}/three.txt", ("valid_source and valid_target",)),
    "table and files": (
        "{0}/good.tsv --source {0}/three.txt --target {0}/three.txt",
        ("give either train, or source and target",),
    ),
    "unlike lengths": ("--source {0}/three.txt --target {0}/five.txt", ("three.txt has 3", "five.txt has 5")),
    "not UTF-8": ("{}/latin.tsv", ("latin.tsv, line 2", "not valid UTF-8")),
    "mostly malformed": ("{}/no-tabs.tsv", ("2 of 3 lines", "too few columns", "line 1")),
    "empty file": ("{}/empty.tsv", ("data is empty",)),
    "empty lines": ("{}/blank.tsv", ("1 of 1 lines", "empty source")),
    "unknown suffix": ("{}/pairs.docx", ("Unknown table format", "pairs.docx", "data.format")),
    "damaged gz": ("{}/cut.tsv.gz", ("damaged or incomplete gzip",)),
    "not Parquet": ("{}/wrong.parquet", ("is not a Parquet file",)),
    "no such column": ("{}/good.tsv --set data.source_column=from", ("has no column 'from'",)),
    "too long": (
        "{}/long.tsv --long error --set data.max_length=5",
        ("long.tsv, line 21", "source has 9 tokens, more than data.max_length=5"),
    ),
    "unknown long": ("{}/good.tsv --long chop", ("data.long", "'truncate'", "'chop'")),
    "unknown option": (
        "{}/good.tsv --set train.max_step=5",
        ("no option train.max_step ", "did you mean train.max_steps?"),
    ),
    "unknown section": ("{}/good.tsv --set modle.width=5", ("no option modle", "did you mean model?")),
    "wrong type": ("{}/good.tsv --set train.max_steps=many", ("train.max_steps", "'many'")),
    "out of range": ("{}/good.tsv --set model.dropout=1.5", ("model.dropout", "1.5")),
    "heads": ("{}/good.tsv --set model.heads=5", ("model.heads=5 does not divide model.width=16",)),
    "odd width": ("{}/good.tsv --set model.width=7 --set model.heads=7", ("model.width=7 must be even",)),
    "unknown size": ("{}/good.tsv --size huge", ("tiny, small, base", "'huge'")),
    "unknown model": ("{}/good.tsv --model transfomer", ("'transfomer'", "did you mean 'transformer'?")),
    "set without =": ("{}/good.tsv --set train.max_steps", ("--set 'train.max_steps' is not of the form",)),
    "set without YAML": ("{}/good.tsv --set train.metrics=[", ("is not valid YAML",)),
    "set below a value": ("{}/good.tsv --set train.max_steps.x=1", ("max_steps is a value, not a section",)),
    "missing config": ("--config {}/nowhere.yaml", ("nowhere.yaml cannot be read: No such file",)),
    "config is a folder": ("--config {}", ("cannot be read: Is a directory",)),
    "broken YAML": ("--config {}/broken.yaml", ("broken.yaml is not valid YAML",)),
    "not text": ("--config {}/binary.yaml", ("binary.yaml is not valid YAML",)),
    "YAML is a list": ("--config {}/list.yaml", ("must be a mapping",)),
    "section is a value": (
        "{}/good.tsv --config {}/value.yaml",
        ("must be a section of options", "'transformer'"),
    ),
    "best_by": ("{}/good.tsv --set train.best_by=bleu", ("train.best_by=bleu is not computed",)),
    "average": ("{}/good.tsv --set train.average=9", ("train.average=9", "train.keep=3")),
    "nbest": ("{}/good.tsv --set search.nbest=9", ("search.nbest=9 exceeds search.beam=5",)),
    "joint": (
        "{}/good.tsv --set text.joint=true --set text.target_tokenizer=char",
        ("joint: true requires the same tokenizer", "word for the source and char"),
    ),
    "metric": ("{}/good.tsv --set train.metrics=blue", ("no metric called 'blue'",)),
    "device": ("{}/good.tsv --set train.device=abacus", ("'abacus' cannot be used here",)),
    "device without values": ("{}/good.tsv --set train.device=meta", ("'meta' cannot be used here",)),
    "precision": ("{}/good.tsv --set train.precision=bfloat16", ("bfloat16 needs an accelerator",)),
    "betas": ("{}/good.tsv --set train.betas=[2,3]", ("train.betas", "less than 1")),
    "seed": ("{}/good.tsv --set train.seed=18446744073709551616", ("train.seed",)),
    "infinite": ("{}/good.tsv --set train.learning_rate=.inf", ("train.learning_rate", "finite")),
    "section": ("{}/good.tsv --set model=false", ("must be a section of options",)),
    "too large": ("{}/good.tsv --set model.ffn=10000000000000", ("cannot be built", "make it smaller")),
    "empty validation": ("{0}/good.tsv --valid {0}/empty.tsv", ("data is empty",)),
    "malformed validation": ("{0}/good.tsv --valid {0}/no-tabs.tsv", ("2 of 3 lines", "no-tabs.tsv")),
    "long validation": (
        "{0}/good.tsv --valid {0}/one-long.tsv --set data.max_length=5",
        ("No validation pairs are left", "data.max_length=5"),
    ),
    "standard input twice": ("- -", ("can be read only once",)),
    "tie": ("{}/good.tsv --set text.joint=false --set model.tie=all", ("model.tie=all needs one tokenizer",)),
}


@pytest.mark.parametrize("case", TRAIN)
def test_training(case: str, files: Path, tmp_path: Path, command: Command) -> None:
    given, fragments = TRAIN[case]
    flags = [] if "config" in given else learner_flags(SHORT)
    out = tmp_path / "below" / "run"
    done = command("train", "--out", out, *flags, *given.replace("{0}", "{}").replace("{}", str(files)).split())
    assert_sentence(done, *fragments)
    assert list(tmp_path.iterdir()) == []


def test_out_that_is_in_use_stays_as_it_was(files: Path, tmp_path: Path, command: Command) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    file.write_text("mine")
    for out, hint in ((folder, f"seqloom resume {folder}"), (file, "choose another --out")):
        done = command("train", files / "good.tsv", "--out", out)
        assert_sentence(done, f"{out} already exists", hint)
    assert [path.read_text() for path in (folder / "mine", file)] == ["mine", "mine"]


@pytest.mark.parametrize(
    ("out", "fault"), [("good.tsv/x", "cannot be written"), (".", "run directory"), ("..", "already exists")]
)
def test_out_that_cannot_be_made(
    out: str,
    fault: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "good.tsv").write_bytes((files / "good.tsv").read_bytes())
    place = tmp_path / "empty" if out == "." else tmp_path
    monkeypatch.chdir(place)
    before = sorted(tmp_path.rglob("*"))
    done = command("train", tmp_path / "good.tsv", "--out", out, *learner_flags(SHORT))
    assert_sentence(done, fault)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_cache_that_cannot_be_made(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(files / "good.tsv"))
    done = command("train", files / "good.tsv", "--out", tmp_path / "run", *learner_flags(SHORT))
    assert_sentence(done, "cache folder", "SEQLOOM_CACHE")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("action", ["translate", "evaluate"])
def test_answers_that_cannot_be_written(
    action: str, files: Path, tmp_path: Path, trained: Path, command: Command
) -> None:
    given = [action, trained, files / "good.tsv", "--out"]
    assert_sentence(command(*given, tmp_path / "nowhere" / "a.txt"), "cannot be written", "nowhere")
    assert_sentence(command(*given, tmp_path), "is a folder, not a file")


def test_out_must_be_given(files: Path, command: Command) -> None:
    done = command("train", files / "good.tsv")
    assert (done.code, done.out) == (2, "")
    assert "--out" in done.err


# A run that is not whole


@pytest.mark.parametrize("action", ["translate", "evaluate", "info", "resume"])
def test_no_run(action: str, files: Path, tmp_path: Path, command: Command) -> None:
    more = [files / "good.tsv"] if action == "evaluate" else []
    assert_sentence(command(action, tmp_path / "nowhere", *more), "There is no run directory", "nowhere")
    assert_sentence(command(action, files, *more), "is not a run directory: it has no config.yaml")


@pytest.fixture
def broken(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained run, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "broken", symlinks=True))


def test_no_checkpoint_yet(broken: Path, files: Path, command: Command) -> None:
    shutil.rmtree(broken / "checkpoints")
    for action in (("translate", broken), ("evaluate", broken, files / "good.tsv")):
        assert_sentence(command(*action), "has no checkpoint yet", f"seqloom resume {broken}")


def test_unknown_checkpoint(trained: Path, command: Command) -> None:
    done = command("translate", trained, "--checkpoint", "step-7")
    assert_sentence(done, "no checkpoint 'step-7'", "best, step-200, step-400")


def test_damaged_tokenizer(broken: Path, command: Command) -> None:
    model = broken / "tokenizer" / "joint.model"
    model.write_bytes(model.read_bytes()[:-9] + b"otherwise")
    assert_sentence(command("translate", broken), "joint.model")
    model.unlink()
    assert_sentence(command("translate", broken), "Cannot read the tokenizer file", "joint.model")
    shutil.rmtree(broken / "tokenizer")
    assert_sentence(command("translate", broken), "tokenizer folder", "does not exist")


def test_damaged_weights(broken: Path, command: Command) -> None:
    weights = broken / "checkpoints" / "step-400" / "model.safetensors"
    shutil.rmtree(broken / "checkpoints" / "step-200")  # or it would go on from there
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert_sentence(command("translate", broken), "checkpoints/best/model.safetensors is damaged")
    assert_sentence(command("resume", broken), "step-400/model.safetensors is damaged", "remove")
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert_sentence(command("resume", broken), "its checksum does not match")


def test_damaged_state(broken: Path, command: Command) -> None:
    shutil.rmtree(broken / "checkpoints" / "step-200")
    (broken / "checkpoints" / "step-400" / "state.json").write_text("{")
    assert_sentence(command("resume", broken), "state.json cannot be read", "seqloom resume")


def test_record_of_the_data_is_gone_or_damaged(broken: Path, command: Command) -> None:
    (broken / "data.json").write_text("{")
    assert_sentence(command("resume", broken), "data.json")
    (broken / "data.json").unlink()
    assert_sentence(command("resume", broken), "data.json")


def test_weights_of_another_model(broken: Path, command: Command) -> None:
    config = broken / "config.yaml"
    changed = config.read_text().replace("width: 64", "width: 32")
    config.write_text(changed)
    said = command("translate", broken, given=b"1")
    assert_sentence(said, "config.yaml was changed", "last line")
    config.write_text(changed.rpartition("#")[0])
    assert_sentence(command("translate", broken, given=b"1"), "do not fit this model")


def test_config_of_the_run_is_damaged(broken: Path, command: Command) -> None:
    (broken / "config.yaml").write_text("model: {name: [\n")
    assert_sentence(command("info", broken), "config.yaml is not valid YAML")
    (broken / "config.yaml").write_text("model: {name: transformer, wings: 2}\n")
    assert_sentence(command("info", broken), "no option model.wings", "config.yaml")


def test_data_that_changed_since_the_run_began(tmp_path: Path, files: Path, command: Command) -> None:
    file = tmp_path / "data.tsv"
    file.write_bytes((files / "good.tsv").read_bytes())
    assert command("train", file, "--out", tmp_path / "run", *learner_flags(SHORT)).code == 0
    file.write_text(file.read_text() + "1\t1\n")
    assert_sentence(command("resume", tmp_path / "run"), f"{file} has changed since the run")
    file.unlink()
    assert_sentence(command("resume", tmp_path / "run"), f"Cannot read the data file {file}")


# Asking a good run for what it cannot do

ASK: dict[str, tuple[str, tuple[str, ...]]] = {
    "missing input": ("translate RUN {}/nowhere.txt", ("nowhere.txt does not exist",)),
    "folder as input": ("translate RUN {}", ("is a folder, not a file",)),
    "input is not UTF-8": ("translate RUN {}/binary.yaml", ("binary.yaml, line 1", "not valid UTF-8")),
    "no such input column": ("translate RUN {}/good.tsv --column from", ("has no column 'from'",)),
    "column 0": ("translate RUN {}/good.tsv --column 0", ("Invalid column 0",)),
    "device": ("translate RUN {}/good.tsv --device cuda:99", ("'cuda:99' cannot be used here",)),
    "no such device": ("evaluate RUN {}/good.tsv --device abacus", ("'abacus' cannot be used here",)),
    "more answers than the beam": (
        "translate RUN {}/good.tsv --beam 2 --nbest 3",
        ("search.nbest=3 exceeds search.beam=2",),
    ),
    "no beam": ("translate RUN {}/good.tsv --beam 0", ("search.beam", "got 0")),
    "no beam in evaluate": ("evaluate RUN {}/good.tsv --beam 0", ("search.beam", "got 0")),
    "unknown metric": ("evaluate RUN {}/good.tsv --metrics blue", ("'blue'", "did you mean 'bleu'?")),
    "no metric": ("evaluate RUN {}/good.tsv --metrics ,", ("No metric",)),
    "no test data": ("evaluate RUN", ("No test data",)),
    "no references": (
        "evaluate RUN --source {}/three.txt",
        ("No test data", "--source and --target"),
    ),
    "missing references": ("evaluate RUN {}/no-tabs.tsv", ("no-tabs.tsv, line 1", "too few columns")),
    "missing test": ("evaluate RUN {}/nowhere.tsv", ("nowhere.tsv does not exist",)),
    "unlike lengths": (
        "evaluate RUN --source {}/three.txt --target {}/five.txt",
        ("three.txt has 3", "five.txt has 5"),
    ),
    "empty test": ("evaluate RUN {}/empty.tsv", ("no lines to evaluate",)),
    "no such demo": ("demo --task poetry", ("no demo called 'poetry'", "pronunciation, dates, numbers")),
    "no such task": ("data make revers", ("no task called 'revers'", "did you mean 'reverse'?")),
}


@pytest.mark.parametrize("case", ASK)
def test_asking(case: str, files: Path, tmp_path: Path, trained: Path, command: Command) -> None:
    given, fragments = ASK[case]
    arguments = given.replace("{}", str(files)).replace("RUN", str(trained)).split()
    if arguments[0] != "data":
        arguments += ["--out", str(tmp_path / "out")]
    assert_sentence(command(*arguments), *fragments)
    assert list(tmp_path.iterdir()) == []


def test_a_process_ends_with_two_and_prints_no_traceback(tmp_path: Path, process: Command) -> None:
    done = process("train", tmp_path / "nowhere.tsv", "--out", tmp_path / "run")
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) == 2
    assert list(tmp_path.iterdir()) == []


def test_report_of_a_run_can_be_read_by_a_machine(trained: Path) -> None:
    report = json.loads((trained / "data-report.json").read_text())
    assert (report["total"], report["kept"], report["dropped"], report["lines"]) == (2200, 2200, 0, [])
