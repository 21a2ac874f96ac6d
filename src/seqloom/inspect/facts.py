"""Summary of a run as plain data."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from seqloom.data.readers import read_source
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.registry import architecture
from seqloom.run.build import build_model
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.tensors import read_tensors
from seqloom.text.pair import TokenizerPair
from seqloom.training.run_log import clipping

_LONGEST_EXAMPLE = 300  # characters
_EXAMPLES = 500  # lines among which the longest is chosen


def describe(run: Run | str | Path) -> dict[str, Any]:
    """Return a summary of a run, or of the run in a folder: model, size, steps, best score."""
    if not isinstance(run, Run):
        run = Run.open(run)
    config, tokenizers = run.config(), run.tokenizers()
    lines = run.metrics()
    checks = [line for line in lines if line["kind"] in ("valid", "average")]
    best = [line for line in checks if line.get("best")]
    last = max((line["step"] for line in lines), default=0)
    facts: dict[str, Any] = {
        "run": str(run.folder),
        "model": config.model.model_dump(mode="json", exclude_none=True),
        "parameters": _parameters(run, config, tokenizers),
        "vocabulary": {"source": tokenizers.reader.size, "target": tokenizers.target.size},
        "joint_vocabulary": tokenizers.joint,
        "steps": last,
        "checkpoints": run.checkpoints().steps(),
    }
    if checks:
        facts["minutes"] = round(max(line.get("seconds") or 0.0 for line in checks) / 60, 1)
    if best:
        facts["best_step"] = best[-1]["step"]
        facts["best"] = {
            key: value
            for key, value in best[-1].items()
            if isinstance(value, float) and key not in ("seconds",)
        }
    if clipped := clipping(lines):
        facts["clipped"] = clipped
    return facts


def example_source(config: Config) -> str:
    """Return the first source of the validation or training data; empty if the files are gone or not text."""
    data = config.data
    try:
        if data.source or data.valid_source:
            with open(str(data.valid_source or data.source), encoding="utf-8") as file:
                return file.readline(_LONGEST_EXAMPLE).strip()
        path = (*data.valid, *data.train)[0]
        column = None if config.data.is_text else data.source_column
        found = read_source(str(path), source_column=column, report=DataReport())
        return next((one.source for one in found if one.source), "")[:_LONGEST_EXAMPLE]
    except (OSError, SeqloomError, IndexError, UnicodeDecodeError):
        return ""


def long_example_source(config: Config) -> str:
    """Return the longest source among the first ones of the validation or training data, within a limit."""
    data = config.data
    try:
        if data.source or data.valid_source:
            with open(str(data.valid_source or data.source), encoding="utf-8") as file:
                sources = [line.strip() for line in islice(file, _EXAMPLES)]
        else:
            path = (*data.valid, *data.train)[0]
            column = None if config.data.is_text else data.source_column
            found = read_source(str(path), source_column=column, report=DataReport())
            sources = [one.source for one in islice(found, _EXAMPLES)]
    except (OSError, SeqloomError, IndexError, UnicodeDecodeError):
        return ""
    return max((one for one in sources if len(one) <= _LONGEST_EXAMPLE), key=len, default="")


def _parameters(run: Run, config: Config, tokenizers: TokenizerPair) -> int:
    """Return the number of trainable parameters; for fitted models, the number of stored values."""
    if architecture(config.model.name).fitted:
        return sum(tensor.numel() for tensor in read_tensors(run.checked_weights()).values())
    return sum(weight.numel() for weight in build_model(config, tokenizers).parameters())
