"""A user's hands: a folder of data, one trained run, and the command line in a process or in this one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import Command

# Learns to copy up to ten digits in a few seconds on one core.
SMALL = {
    "text.tokenizer": "word",
    "text.byte_fallback": "false",
    "model.width": "64",
    "model.dropout": "0",
    "train.batch_tokens": "600",
    "train.learning_rate": "0.005",
    "train.warmup": "50",
    "train.schedule": "cosine",
    "train.label_smoothing": "0",
    "train.checkpoint_every": "200",
    "train.threads": "1",
}


@pytest.fixture(scope="session")
def options() -> Callable[..., list[str]]:
    """The --set flags of a small model, changed by further settings."""

    def flags(settings: dict[str, object] | None = None) -> list[str]:
        merged = {**SMALL, **(settings or {})}
        return [part for key, value in merged.items() for part in ("--set", f"{key}={value}")]

    return flags


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
def trained(
    tmp_path_factory: pytest.TempPathFactory, process: Command, data: Path, options: Callable[..., list[str]]
) -> Path:
    """A Transformer that has learnt to copy."""
    out = tmp_path_factory.mktemp("runs") / "copy"
    flags = options({"train.max_steps": 400, "model.layers": 1, "model.ffn": 128})
    done = process("train", data / "copy.tsv", "--out", out, "--size", "tiny", *flags)
    assert done.code == 0, done.err
    assert f"seqloom translate {out}" in done.out
    return out
