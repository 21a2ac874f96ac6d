"""Every form of input gives the run that the plain table gives, and no line is lost without a word."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from support.commands import Command
from support.configs import TINY_TRANSFORMER, learner_flags

SHORT = {**TINY_TRANSFORMER, "train.max_steps": 2}


def weights(run: Path) -> bytes:
    return (run / "checkpoints" / "step-2" / "model.safetensors").read_bytes()


@pytest.fixture
def train(tmp_path: Path, command: Command) -> Command:
    """Trains two steps with these arguments and gives the run directory."""
    numbers = iter(range(100))

    def run(*arguments: object, given: bytes = b"", settings: dict[str, object] | None = None) -> Path:
        out = tmp_path / f"run-{next(numbers)}"
        flags = learner_flags({**SHORT, **(settings or {})})
        done = command("train", *arguments, "--out", out, *flags, given=given)
        assert done.code == 0, done.err
        return out

    return run


@pytest.fixture
def rows(data: Path) -> list[list[str]]:
    return [line.split("\t") for line in (data / "small.tsv").read_text().splitlines()]


def test_csv_jsonl_and_gz_give_the_run_of_the_tsv(
    data: Path, tmp_path: Path, rows: list[list[str]], train: Command
) -> None:
    (tmp_path / "a.csv").write_text("".join(f'"{s}","{t}"\n' for s, t in rows))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in rows))
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress((data / "small.tsv").read_bytes()))
    expected = weights(train(data / "small.tsv"))
    for name in ("a.csv", "a.jsonl", "a.tsv.gz"):
        assert weights(train(tmp_path / name)) == expected, name


def test_standard_input_gives_the_run_of_the_file(data: Path, train: Command, command: Command) -> None:
    piped = train("-", given=(data / "small.tsv").read_bytes())
    assert weights(piped) == weights(train(data / "small.tsv"))
    assert command("resume", piped).code == 0  # what was piped is kept for it


def test_aligned_files_with_validation_files(
    data: Path, tmp_path: Path, rows: list[list[str]], train: Command
) -> None:
    for name, part in (("train", rows[:150]), ("valid", rows[150:])):
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in part))
        for column, side in enumerate(("source", "target")):
            (tmp_path / f"{name}.{side}").write_text("".join(row[column] + "\n" for row in part))
    aligned = train(
        *("--source", tmp_path / "train.source", "--target", tmp_path / "train.target"),
        *("--valid-source", tmp_path / "valid.source", "--valid-target", tmp_path / "valid.target"),
    )
    tables = train(tmp_path / "train.tsv", "--valid", tmp_path / "valid.tsv")
    assert weights(aligned) == weights(tables)
    assert _valid_loss(aligned) == _valid_loss(tables)


def test_several_tables_are_one_corpus(
    tmp_path: Path, data: Path, rows: list[list[str]], train: Command
) -> None:
    for name, part in (("a", rows[:90]), ("b", rows[90:])):
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in part))
    assert weights(train(tmp_path / "a.tsv", tmp_path / "b.tsv")) == weights(train(data / "small.tsv"))


def test_columns_by_name(tmp_path: Path, data: Path, rows: list[list[str]], train: Command) -> None:
    (tmp_path / "named.tsv").write_text("id\tto\tfrom\n" + "".join(f"x\t{t}\t{s}\n" for s, t in rows))
    named = train(tmp_path / "named.tsv", settings={"data.source_column": "from", "data.target_column": "to"})
    assert weights(named) == weights(train(data / "small.tsv"))


def test_a_part_is_held_out_when_no_validation_is_given(
    data: Path, tmp_path: Path, train: Command, command: Command
) -> None:
    done = command(
        "train",
        data / "small.tsv",
        "--out",
        tmp_path / "split",
        *learner_flags({**SHORT, "data.valid_share": 0.2}),
    )
    [count] = [line for line in done.err.splitlines() if line.endswith(" pairs")]
    assert 140 <= int(count.split()[-2]) <= 180  # of 200
    assert _valid_loss(tmp_path / "split") > 0


def test_a_config_file_and_flags_give_the_same_run(
    data: Path, tmp_path: Path, train: Command, command: Command
) -> None:
    by_flags = train(data / "small.tsv", "--model", "transformer", "--size", "tiny", "--long", "truncate")
    (tmp_path / "same.yaml").write_text((by_flags / "config.yaml").read_text())
    out = tmp_path / "by-file"
    assert command("train", "--config", tmp_path / "same.yaml", "--out", out).code == 0
    assert weights(out) == weights(by_flags)
    assert (out / "config.yaml").read_bytes() == (by_flags / "config.yaml").read_bytes()
    other = tmp_path / "other"
    assert (
        command("train", "--config", tmp_path / "same.yaml", "--set", "train.seed=2", "--out", other).code == 0
    )
    assert weights(other) != weights(by_flags)


def test_every_line_that_was_dropped_is_listed(tmp_path: Path, train: Command) -> None:
    file = tmp_path / "faulty.tsv"
    good = [f"{i} {i + 1}\t{i}" for i in range(20)]
    bad = ["\tno source", "no target\t ", "one column", "1 2 3 4 5 6 7 8 9\t1"]
    file.write_text("\n".join([*good[:5], bad[0], *good[5:10], bad[1], bad[2], *good[10:], bad[3]]) + "\n")
    run = train(file, settings={"data.max_length": 5})
    report = json.loads((run / "data-report.json").read_text())
    listed = [(line["line"], line["reason"], line["text"]) for line in report["lines"]]
    assert sorted(listed) == [
        (6, "empty source", bad[0]),
        (12, "empty target", bad[1]),
        (13, "too few columns", bad[2]),
        (24, "source longer than data.max_length=5 tokens", bad[3]),
    ]
    assert {line["file"] for line in report["lines"]} == {str(file)}
    assert (report["total"], report["kept"], report["dropped"]) == (24, 20, 4)


def test_what_was_dropped_is_listed_again_when_the_tokens_come_from_the_cache(
    tmp_path: Path, train: Command
) -> None:
    file = tmp_path / "long.tsv"
    file.write_text("".join(f"{i} 2\t{i}\n" for i in range(20)) + "1 2 3 4 5 6 7 8 9\t1\n")
    first, again = (train(file, settings={"data.max_length": 5}) / "data-report.json" for _ in range(2))
    assert [line["line"] for line in json.loads(first.read_text())["lines"]] == [21]
    assert again.read_text() == first.read_text()


def test_a_truncated_line_is_kept_and_listed(tmp_path: Path, train: Command) -> None:
    file = tmp_path / "long.tsv"
    file.write_text("1 2\t1\n" * 5 + "1 2 3 4 5 6 7 8 9\t1\n")
    run = train(file, "--long", "truncate", settings={"data.max_length": 5, "data.valid_share": 0})
    report = json.loads((run / "data-report.json").read_text())
    [line] = report["lines"]
    assert line["line"] == 6
    assert "truncated" in line["reason"]


def test_lines_of_the_validation_file_are_listed_too(tmp_path: Path, data: Path, train: Command) -> None:
    (tmp_path / "valid.tsv").write_text("1 2\t1 2\nno target\n3 4\t3 4\n")
    run = train(data / "small.tsv", "--valid", tmp_path / "valid.tsv")
    [line] = json.loads((run / "data-report.json").read_text())["lines"]
    assert (line["file"], line["line"]) == (str(tmp_path / "valid.tsv"), 2)


def _valid_loss(run: Path) -> float:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    [valid] = [line for line in lines if line["kind"] == "valid"]
    return float(valid["loss"])
