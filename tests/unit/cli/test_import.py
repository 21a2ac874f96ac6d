"""`seqloom import`, and the page that describes it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support.commands import run_command
from support.configs import TINY_TRANSFORMER, flags

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "marian.md"
OPTIONS = " ".join(flags({**TINY_TRANSFORMER, "train.max_steps": 2, "search.max_length_factor": 1}))


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [f"{a} {b} {a}\t{b} {a} {b}\n" for a in ["red", "blue", "green"] for b in ["dog", "cat", "cow"]]
    for name in ("pairs.tsv", "test.tsv"):
        Path(name).write_text("".join(pairs))
    Path("input.txt").write_text("red dog\n\nblue cow\n")
    (block,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    said = {}
    for line in block.splitlines():
        line += f" {OPTIONS}" if "--model" in line else " --set train.max_steps=2" if "train" in line else ""
        done = run_command(*shlex.split(line)[1:])
        assert done.code == 0, f"{line}\n{done.err}"
        said[line.split()[1]] = done.out
    assert "9 sentences: logits differ by at most" in said["export"]
    assert re.match(r"imported: runs/back \([\d,]+ parameters, \d+ symbols\)\n", said["import"])
    assert "seqloom train pairs.tsv --config runs/back/config.yaml --init-from runs/back" in said["import"]
    assert "joint vocabulary      True" in said["info"]
    assert len(said["translate"].splitlines()) == 3


def test_ignored_options_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.export.marian import load as marian
    from seqloom.run.directory import Run

    made = marian.ImportedMarian(Run(tmp_path), 1234, 56, ["min_length = 3 is left out"])
    monkeypatch.setattr(marian, "import_marian", lambda folder, out: made)
    done = run_command("import", "there", "--out", "here")
    assert "imported: here (1,234 parameters, 56 symbols)\n  min_length = 3 is left out\n" in done.out
