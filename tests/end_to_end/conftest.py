"""A user's hands: a folder of data, one trained run, and the command line in a process or in this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import Command
from support.configs import learner_flags


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory, process: Command) -> Path:
    """A folder with copy.tsv (2,200 pairs), small.tsv (its first 200) and test.tsv (100 others)."""
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("copy", 2200, 1), ("test", 300, 99)):
        made = process(
            "data", "make", "copy", "--count", count, "--seed", seed, "--out", folder / f"{name}.tsv"
        )
        assert made.code == 0, made.err
    seen = (folder / "copy.tsv").read_text().splitlines(keepends=True)
    new = [line for line in (folder / "test.tsv").read_text().splitlines(keepends=True) if line not in seen]
    (folder / "test.tsv").write_text("".join(new[:100]))
    (folder / "small.tsv").write_text("".join(seen[:200]))
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, process: Command, data: Path) -> Path:
    """A Transformer that has learnt to copy."""
    out = tmp_path_factory.mktemp("runs") / "copy"
    flags = learner_flags({"train.max_steps": 400, "model.layers": 1, "model.ffn": 128})
    done = process("train", data / "copy.tsv", "--out", out, "--size", "tiny", *flags)
    assert done.code == 0, done.err
    assert f"seqloom translate {out}" in done.out
    return out
