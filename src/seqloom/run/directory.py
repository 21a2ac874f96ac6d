"""Run directories: configuration, tokenizers, weights and all other files of a run."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

from seqloom.data.corpus import DataRecord
from seqloom.decode.shortlist import Shortlist
from seqloom.errors import SeqloomError, quoted
from seqloom.files import check_sealed_text, read_json, read_sealed
from seqloom.registry import UnknownModel
from seqloom.run.config import Config, from_tree, read_yaml
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import AVERAGE, BEST, MODEL, Checkpoints, check_sums
from seqloom.training.run_log import read_metrics
from seqloom.types import Head

EXPORT_REPORT = "export.json"  # in an exported folder, which is read as a run without checkpoints


@dataclass(frozen=True)
class Run:
    """The files of a run directory."""

    folder: Path

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Return the run in a folder; raise if the folder is not a run directory."""
        run = cls(Path(folder))
        if not run.folder.is_dir():
            raise SeqloomError(
                f"There is no run directory {folder}.", "create one with seqloom train ... --out DIR"
            )
        if not run.config_file.is_file():
            raise SeqloomError(
                f"{folder} is not a run directory: it has no config.yaml.",
                "give the --out folder of seqloom train",
            )
        _check_contents(run.folder)
        return run

    @property
    def config_file(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def lock_file(self) -> Path:
        """The lock file of the process that trains the run; it exists while that process runs."""
        return self.folder / ".seqloom.lock"

    @property
    def tokenizer_folder(self) -> Path:
        return self.folder / "tokenizer"

    @property
    def data_file(self) -> Path:
        return self.folder / "data.json"

    @property
    def plan_file(self) -> Path:
        """The options that were chosen from the data, with reasons."""
        return self.folder / "plan.json"

    @property
    def initial_file(self) -> Path:
        """The initial weights, if they are not random."""
        return self.folder / "initial.safetensors"

    @property
    def import_file(self) -> Path:
        """The file with the name of the user's module that defines the model, if it is not part of seqloom."""
        return self.folder / "import.json"

    def config(self) -> Config:
        check_sealed_text(self.config_file)
        tree = read_yaml(self.config_file)
        try:
            return from_tree(tree, where=str(self.config_file))
        except UnknownModel as error:
            if (file := self.imported()) is None:
                raise
            raise SeqloomError(
                f"The model of {self.folder} is defined in the file {quoted(file)}, which is not imported.",
                f"if you trust that file: seqloom --import {shlex.quote(file)} ...; "
                "in Python, import it before loading the run",
            ) from error

    def imported(self) -> str | None:
        """Return the recorded name of the user's file, without its folder; it is shown, never executed."""
        try:
            return Path(str(read_sealed(self.import_file)["file"])).name
        except (SeqloomError, KeyError):
            return None

    def tokenizers(self) -> TokenizerPair:
        return TokenizerPair.load(self.tokenizer_folder)

    def data_record(self) -> DataRecord:
        """Return the checksums and counts of the data files when the run was created."""
        return DataRecord.checked(read_sealed(self.data_file), "data", where=str(self.data_file))

    def length_ratio(self) -> float | None:
        """Return the target characters per source character of the training data.

        None if it is not recorded. Only a warning depends on it, so a damaged record is not an error here.
        """
        try:
            ratio = read_sealed(self.data_file).get("length_ratio") if self.data_file.is_file() else None
        except SeqloomError:
            return None
        return ratio if isinstance(ratio, float) and ratio > 0 else None

    def checkpoints(self, keep: int = 3) -> Checkpoints:
        return Checkpoints(self.folder / "checkpoints", keep, tokenizers=self._tokenizer_sum())

    def _tokenizer_sum(self) -> str:
        """Return one checksum of the tokenizers, which checkpoints record; their JSON files hold their own."""
        records = [read_json(file) for file in sorted(self.tokenizer_folder.glob("*.json"))]
        return hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()

    def weights(self, checkpoint: str | None = None) -> Path:
        """Return the weights file of a named checkpoint; by default of the best one, else of the newest."""
        folder = self.folder / "checkpoints"
        if checkpoint is not None:
            known = sorted(p.name for p in folder.glob("*") if (p / MODEL).is_file())
            if checkpoint not in known:  # a name, never a path
                raise SeqloomError(
                    f"{self.folder} has no checkpoint {checkpoint!r}.",
                    f"available: {', '.join(known) or 'none yet'}",
                )
            return folder / checkpoint / MODEL
        steps = self.checkpoints().steps()
        names = [BEST, *(f"step-{step}" for step in reversed(steps)), AVERAGE]
        for name in names:
            if (folder / name / MODEL).is_file():
                return folder / name / MODEL
        if (self.folder / EXPORT_REPORT).is_file():
            raise SeqloomError(
                f"{self.folder} is an exported model, not a run: it has no checkpoints.",
                "give the run directory that the model was exported from",
            )
        raise SeqloomError(
            f"{self.folder} has no checkpoint yet.", f"continue training with: seqloom resume {self.folder}"
        )

    def checked_weights(self, checkpoint: str | None = None) -> Path:
        """Return the same file after verifying its checksum."""
        weights = self.weights(checkpoint)
        check_sums(weights.parent, [weights.name], tokenizers=self.checkpoints().tokenizers)
        return weights

    @property
    def alignment_file(self) -> Path:
        """The file that names the attention head for alignments, if one was chosen."""
        return self.folder / "alignment.json"

    def alignment_head(self) -> Head | None:
        """Return the head whose attention is used for alignments; None for the mean of all heads."""
        if not self.alignment_file.is_file():
            return None
        try:
            values = read_sealed(self.alignment_file)
            layer, head = index(values["layer"]), index(values["head"])  # integers only
            return Head(layer, head, bool(values["later"]))
        except (SeqloomError, KeyError, TypeError) as error:
            raise SeqloomError(
                f"{self.alignment_file} does not name a head: it is damaged.",
                "remove it, or choose a head again with seqloom evaluate-alignment --keep",
            ) from error

    @property
    def shortlist_folder(self) -> Path:
        """The folder of the lexical shortlist, if one was built."""
        return self.folder / "shortlist"

    def shortlist(self) -> Shortlist:
        """Load the lexical shortlist of the run."""
        if not self.shortlist_folder.is_dir():
            raise SeqloomError(
                f"{self.folder} has no shortlist.",
                f"build one with seqloom shortlist {self.folder}, or leave out search.shortlist",
            )
        return Shortlist.load(self.shortlist_folder, self.tokenizers())

    def metrics(self) -> list[dict[str, Any]]:
        """Return the entries of metrics.jsonl."""
        return read_metrics(self.folder / "metrics.jsonl")


def _check_contents(folder: Path) -> None:
    """Raise if a link leads out of the run directory, or if an entry is neither a file nor a folder.

    An untrusted run could otherwise make us read, write or block anywhere on this machine.
    """
    root = os.path.realpath(folder)
    for parent, folders, files in os.walk(folder):
        for path in (os.path.join(parent, name) for name in (*folders, *files)):
            target = os.path.realpath(path)
            if os.path.commonpath((root, target)) != root:
                raise SeqloomError(
                    f"{path} is a link that leads out of the run directory.",
                    "replace the link by a copy of its target, or link to the run directory itself",
                )
            if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
                raise SeqloomError(
                    f"{path} is neither a file nor a folder.", "remove it from the run directory"
                )
