"""The command that trains on real and synthetic pairs."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seqloom.distillation.mixing import training_commands
from seqloom.run.config import compose
from seqloom.run.train import create
from support.configs import TINY
from support.runs import write_lines

PAIRS = [f"{i % 7} {i % 5}\t{i % 7}" for i in range(40)]


def commands(folder: Path, settings: Mapping[str, Any]) -> list[str]:
    write_lines(folder / "real.tsv", PAIRS)
    given = {"data.train": str(folder / "real.tsv")} if "data.source" not in settings else {}
    run = create(compose(values={**TINY, **given, **settings}), folder / "reverse", quiet=True)
    return training_commands(run, Path("synthetic.tsv"))


def test_tables_of_the_reverse_run_are_used(tmp_path: Path) -> None:
    (command,) = commands(tmp_path, {"data.source_column": "2", "data.target_column": "1"})
    assert shlex.split(command) == [
        *("seqloom", "train", str(tmp_path / "real.tsv"), "synthetic.tsv", "--set", "data.weights=[1,1]"),
        *("--valid", "valid.tsv", "--out", "runs/NAME"),
    ]


def test_several_tables_have_weights_by_size(tmp_path: Path) -> None:
    tables = [write_lines(tmp_path / "a.tsv", PAIRS[:10]), write_lines(tmp_path / "b.tsv", PAIRS[:30])]
    valid = write_lines(tmp_path / "valid.tsv", PAIRS)
    columns = {"data.source_column": "2", "data.target_column": "1", "data.valid": str(valid)}
    words = shlex.split(commands(tmp_path, {**columns, "data.train": [*map(str, tables)]})[0])
    assert words[2:7] == [*map(str, tables), "synthetic.tsv", "--set", "data.weights=[0.25,0.75,1]"]
    assert words[7:9] == ["--valid", str(valid)]


def test_a_table_with_other_columns_must_be_made_by_the_user(tmp_path: Path) -> None:
    (command,) = commands(tmp_path, {})
    assert command.startswith(
        "seqloom train real.tsv synthetic.tsv --set 'data.weights=[1,1]' --valid valid.tsv"
    )


@pytest.mark.parametrize("packed", [False, True])
def test_two_files_are_joined_to_a_table_with_the_sides_swapped(tmp_path: Path, packed: bool) -> None:
    source, target = write_lines(tmp_path / "a.de", "xyz" * 4), write_lines(tmp_path / "a.en", "abc" * 4)
    if packed:
        subprocess.run(["gzip", source], check=True)
        source = tmp_path / "a.de.gz"
    files = {"data.source": str(source), "data.target": str(target)}
    valid = {"data.valid_source": str(source), "data.valid_target": str(target)}
    join, train = commands(tmp_path, {**files, **valid})
    subprocess.run(["bash", "-c", join], check=True, cwd=tmp_path)
    assert (tmp_path / "real.tsv").read_text().splitlines()[:3] == ["a\tx", "b\ty", "c\tz"]
    assert f"--valid-source {target} --valid-target {source}" in train
