"""Commands that train a model on real and synthetic pairs, mixed by weight."""

from __future__ import annotations

import shlex
from pathlib import Path

from seqloom.data.config import DataConfig
from seqloom.data.shards import corpora
from seqloom.errors import SeqloomError
from seqloom.run.directory import Run

REAL = "real.tsv"  # name of a table that the user has to provide


def training_commands(reverse: Run, synthetic: Path) -> list[str]:
    """Return commands that train the direction opposite to a run on its real pairs and on synthetic ones.

    Half of the pairs of an epoch are real. Tables of the reverse run are used if their columns are 2 and 1; two
    aligned files are first joined to a table. Otherwise the commands name a table that the user has to make.
    """
    data = reverse.config().data
    tables = list(data.train) if _are_reversed_tables(data) else [REAL]
    weights = [*_sizes(reverse, data), 1.0] if tables != [REAL] else [1.0, 1.0]
    words = ["seqloom", "train", *tables, str(synthetic), "--set", f"data.weights={_listed(weights)}"]
    words += [*_validation(data), "--out", "runs/NAME"]
    joined = [_joined(data.source, data.target)] if data.source and data.target else []
    return [*joined, shlex.join(words)]


def _are_reversed_tables(data: DataConfig) -> bool:
    return bool(data.train) and (data.source_column, data.target_column) == ("2", "1")


def _sizes(run: Run, data: DataConfig) -> list[float]:
    """Return the share of each table in the real pairs."""
    if len(data.train) == 1:
        return [1.0]
    try:
        pairs = run.data_record().pairs
        sizes = [sum(pairs.get(shard.file, 0) for shard in shards) for shards in corpora(data, "train")]
    except SeqloomError:  # the tables were moved, so their sizes are unknown
        sizes = []
    if not all(sizes):
        sizes = [1] * len(data.train)
    return [round(size / sum(sizes), 4) or 0.0001 for size in sizes]


def _listed(weights: list[float]) -> str:
    return f"[{','.join(f'{weight:g}' for weight in weights)}]"


def _validation(data: DataConfig) -> list[str]:
    """Return the options for real validation pairs; held-out ones would be partly synthetic."""
    if data.valid_source and data.valid_target:
        return ["--valid-source", data.valid_target, "--valid-target", data.valid_source]
    if data.valid and _are_reversed_tables(data):
        return [word for table in data.valid for word in ("--valid", table)]
    return ["--valid", "valid.tsv"]


def _joined(source: str, target: str) -> str:
    """Return a command that joins the files of a reverse run to a table, with the columns swapped."""
    files = [shlex.quote(target), shlex.quote(source)]
    if any(file.endswith(".gz") for file in (source, target)):
        files = [f"<(gzip -dcf {file})" for file in files]
    return f"paste {files[0]} {files[1]} > {REAL}"
