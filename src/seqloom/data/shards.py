"""The files that a name in the options stands for: one file, a folder, or a pattern such as web/*.parquet."""

from __future__ import annotations

import os
from collections.abc import Iterable
from glob import glob, has_magic
from pathlib import Path
from typing import NamedTuple

from seqloom.data.config import DataConfig, Format, Part
from seqloom.data.tables import SUFFIXES, suffix
from seqloom.errors import SeqloomError
from seqloom.files import is_special


class Shard(NamedTuple):
    """A table or a text, or two aligned files."""

    file: str
    target: str | None = None


def corpora(config: DataConfig, part: Part) -> list[list[Shard]]:
    """The shards of a part, by corpus: each name in the options is one, whatever it stands for."""
    train = part == "train"
    source, target = (config.source, config.target) if train else (config.valid_source, config.valid_target)
    if source is not None and target is not None:
        return [_aligned(source, target)]
    names = config.train if train else config.valid
    return [[Shard(file) for file in files(name, config.format)] for name in names]


def _aligned(source: str, target: str) -> list[Shard]:
    """The files of both sides, first with first in the order of their names."""
    sources, targets = files(source, "text"), files(target, "text")
    if len(sources) != len(targets):
        raise SeqloomError(
            f"{source} stands for {len(sources)} files, but {target} for {len(targets)}.",
            "each source needs its target; they are paired in the order of their names",
        )
    return [Shard(*both) for both in zip(sources, targets, strict=True)]


def files(name: str, format: Format) -> list[str]:
    """What a name stands for, sorted; the name itself if it is neither a folder nor a pattern.

    Of a folder these are its tables by their suffixes, or all files if the format is given.
    """
    path = Path(name)
    if os.path.isdir(name):  # unlike Path's, no error if there can be no such name
        inside = (entry for entry in sorted(path.iterdir()) if entry.is_file() and entry.name[0] != ".")
        found = [str(entry) for entry in inside if format != "auto" or _is_table(str(entry))]
        kind = "tables (TSV, CSV, JSONL, Parquet) by their suffix" if format == "auto" else "files"
        hint = "name the files, or say data.format" if format == "auto" else "name another folder"
        if not found:
            raise SeqloomError(f"The folder {name} has no {kind}.", hint)
        return found
    if not has_magic(name) or os.path.exists(name):
        return [name]
    found = [file for file in sorted(glob(name, recursive=True)) if os.path.isfile(file)]
    if not found:
        raise SeqloomError(
            f"No file is called like {name}.", "check the pattern; ** stands for folders of any depth"
        )
    return found


def _is_table(file: str) -> bool:
    return SUFFIXES.get(suffix(file), "conllu") != "conllu"


def check_read_again(shards: Iterable[Shard]) -> None:
    """Raise an error if a file can be read only once, as a pipe: the data is read several times."""
    for file in (file for shard in shards for file in shard if file):
        if is_special(file):
            raise SeqloomError(
                f"The data file {file} is a pipe or a device, but the data is read more than once.",
                "give a file; or - and send the data to standard input",
            )
