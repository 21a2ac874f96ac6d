"""Summary of a run as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqloom.registry import architecture
from seqloom.run.build import build_model
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.tensors import read_tensors
from seqloom.text.pair import TokenizerPair
from seqloom.training.run_log import clipping


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


def _parameters(run: Run, config: Config, tokenizers: TokenizerPair) -> int:
    """Return the number of trainable parameters; for fitted models, the number of stored values."""
    if architecture(config.model.name).fitted:
        return sum(tensor.numel() for tensor in read_tensors(run.checked_weights()).values())
    return sum(weight.numel() for weight in build_model(config, tokenizers).parameters())
