"""seqloom as a contestant: run by the Python that runs the benchmark."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from measure import Measurement, measure
from workload import Model, Workload

from seqloom import SeqloomError, __version__
from seqloom.text.pair import TokenizerPair


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
    """`seqloom train` on the raw text, with the tokenizer that it trains by itself.

    Several processes have the workload's threads between them.
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
        "train.checkpoint_every": 10**9,  # only at the end, after the last line that counts
        "train.threads": max(1, workload.threads // processes),
        "train.shard": shard,
    }
    measurement = measure(
        [
            *(sys.executable, "-m", "seqloom", "train", "--out", str(run), "--processes", str(processes)),
            *(part for flag, file in files.items() for part in (f"--{flag}", corpus.file(file))),
            *(part for key, value in settings.items() for part in ("--set", f"{key}={value}")),
        ],
        run / "metrics.jsonl",
        workload,
        name=name,
        version=__version__,
        log=folder / "output.log",
    )
    if TokenizerPair.load(run / "tokenizer").fingerprint != corpus.fingerprint:
        raise SeqloomError(
            "seqloom trained another tokenizer than the peers were given: the rates do not compare."
        )
    return measurement
