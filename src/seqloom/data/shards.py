"""Expansion of data options to files: a single file, a folder, or a pattern such as web/*.parquet."""

from __future__ import annotations

import os
from collections.abc import Iterable
from glob import glob, has_magic
from pathlib import Path
from typing import NamedTuple

from seqloom.data.aligned import aligned_names
from seqloom.data.arrow_files import dataset_files
from seqloom.data.config import DataConfig, Format, Part
from seqloom.data.tables import SUFFIXES, suffix
from seqloom.errors import SeqloomError
from seqloom.files import is_special


class Shard(NamedTuple):
    """Table, text file, or two aligned files."""

    file: str
    target: str | None = None


def corpora(config: DataConfig, part: Part) -> list[list[Shard]]:
    """Return the shards of a part by corpus; each entry of an option is one corpus."""
    train = part == "train"
    source, target = (config.source, config.target) if train else (config.valid_source, config.valid_target)
    if source is not None and target is not None:
        return [_aligned(source, target)]
    names = config.train if train else config.valid
    return [_shards(name, config) for name in names]


def _shards(name: str, config: DataConfig) -> list[Shard]:
    """Return the files of a name; in a folder, also pairs of files that differ in a language code."""
    if not os.path.isdir(name) or config.format != "auto":
        return [Shard(file) for file in files(name, config.format)]
    if (saved := dataset_files(Path(name))) is not None:
        return [Shard(file) for file in saved]
    pairs = aligned_names(_inside(Path(name)), config.languages) if config.languages else []
    paired = {file for pair in pairs for file in pair}
    single = [file for file in _inside(Path(name)) if _is_table(file) and file not in paired]
    if not pairs and not single:
        files(name, config.format)  # raises the error
    return [*(Shard(*pair) for pair in pairs), *map(Shard, single)]


def _inside(folder: Path) -> list[str]:
    return [str(entry) for entry in sorted(folder.iterdir()) if entry.is_file() and entry.name[0] != "."]


def _aligned(source: str, target: str) -> list[Shard]:
    """Pair the files of both sides in the order of their names."""
    sources, targets = files(source, "text"), files(target, "text")
    if len(sources) != len(targets):
        raise SeqloomError(
            f"{source} matches {len(sources)} files, but {target} matches {len(targets)}.",
            "give one target file per source file; they are paired in the order of their names",
        )
    return [Shard(*both) for both in zip(sources, targets, strict=True)]


def files(name: str, format: Format) -> list[str]:
    """Return the files of a folder or pattern, sorted; any other name is returned unchanged.

    The files of a folder are those with the suffix of a table, or all files if the format is given.
    """
    path = Path(name)
    if os.path.isdir(name):  # Path.is_dir raises if the name is invalid
        found = [file for file in _inside(path) if format != "auto" or _is_table(file)]
        kind = "tables or translation units" if format == "auto" else "files"
        hint = "list the files, or set data.format" if format == "auto" else "choose another folder"
        if not found:
            raise SeqloomError(f"The folder {name} contains no {kind}.", hint)
        return found
    if not has_magic(name) or os.path.exists(name):
        return [name]
    found = [file for file in sorted(glob(name, recursive=True)) if os.path.isfile(file)]
    if not found:
        raise SeqloomError(f"No file matches {name}.", "check the pattern; ** matches folders at any depth")
    return found


def _is_table(file: str) -> bool:
    return SUFFIXES.get(suffix(file), "conllu") not in ("conllu", "subtitles")


def check_rereadable(shards: Iterable[Shard]) -> None:
    """Raise if a file, such as a pipe, can be read only once: data is read several times."""
    for file in (file for shard in shards for file in shard if file):
        if is_special(file):
            raise SeqloomError(
                f"The data file {file} is a pipe or a device, but data is read more than once.",
                "use a regular file, or - and send the data to standard input",
            )
