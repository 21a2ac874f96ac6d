"""Training speed of seqloom, run with the Python interpreter of the benchmark."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import Measurement, measure
from workload import Model, Recipe, Workload

from seqloom import SeqloomError, __version__
from seqloom.text.pair import TokenizerPair

_NEVER = 10**9  # updates


def seqloom(
    model: Model,
    workload: Workload,
    _environments: Path,
    folder: Path,
    *,
    name: str = "seqloom",
    processes: int = 1,
    shard: bool = False,
) -> Measurement:
    """Measure `seqloom train` on the raw text, including training the tokenizer.

    Several processes share the threads of the workload.
    """
    corpus, run = workload.corpus, folder / "run"
    files = {"source": "train.en", "target": "train.de", "valid-source": "val.en", "valid-target": "val.de"}
    settings = {
        "text.vocab_size": corpus.vocabulary_size,
        **{f"model.{option}": value for option, value in asdict(model).items()},
        "train.label_smoothing": workload.label_smoothing,
        "train.batch_tokens": workload.batch_tokens,
        "train.max_minutes": workload.seconds / 60,
        "train.log_every": 1,
        **_checkpoint_options(workload.checkpoint_every),
        **_schedule_options(workload.recipe),
        "train.threads": max(1, workload.threads // processes),
        "train.shard": shard,
    }
    measurement = measure(
        [
            *(
                sys.executable,
                "-m",
                "seqloom",
                "train",
                "--plan",
                "fixed",
                "--out",
                str(run),
                "--processes",
                str(processes),
            ),
            *(part for flag, file in files.items() for part in (f"--{flag}", corpus.file(file))),
            *(part for key, value in settings.items() for part in ("--set", f"{key}={value}")),
        ],
        run / "metrics.jsonl",
        workload,
        name=name,
        version=__version__,
        log=folder / "output.log",
    )
    if TokenizerPair.load(run / "tokenizer").fingerprint != corpus.tokenizers.fingerprint:
        raise SeqloomError(
            "The tokenizer of seqloom differs from that of the other toolkits: the rates are not comparable."
        )
    return measurement


def _checkpoint_options(every: int | None) -> dict[str, Any]:
    """Return options that keep every checkpoint without validation, or that save only at the end."""
    if every is None:
        return {"train.checkpoint_every": _NEVER}
    return {"train.checkpoint_every": every, "train.keep": _NEVER, "train.validate_every": _NEVER}


def _schedule_options(recipe: Recipe | None) -> dict[str, Any]:
    """Return the options of the recipe, if there is one."""
    if recipe is None:
        return {}
    return {
        "train.learning_rate": recipe.learning_rate,
        "train.schedule": "inverse-sqrt",
        "train.warmup": recipe.warmup,
        "train.betas": list(recipe.betas),
    }
