"""Other toolkits, each in a virtual environment of its own and with a model as near to seqloom's as it allows.

A further peer is an `Environment`, a driver that records its updates, and a function that returns a
`Measurement`, named among the contestants of train.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from environment import Environment
from measure import Measurement, measure
from peer_configs import huggingface_config, joeynmt_config, opennmt_config
from workload import LSTM, PIECES, Transformer, Workload

_HERE = Path(__file__).resolve().parent

OPENNMT = Environment(
    name="opennmt",
    package="OpenNMT-py",
    version="3.5.1",
    requirements=(
        *(
            "configargparse",
            "ctranslate2",
            "tensorboard",
            "flask",
            "waitress",
            "pyonmttok",
            "pyyaml",
            "sacrebleu",
        ),
        *("rapidfuzz", "pyahocorasick", "six", "sentencepiece", "spacy"),
    ),
    stubs=("fasttext",),
)

HUGGINGFACE = Environment(
    name="huggingface",
    package="transformers",
    version="5.22.2",
    requirements=(
        *("huggingface-hub>=1.31,<3", "numpy", "packaging", "pyyaml", "regex", "safetensors", "tqdm", "typer"),
        *("accelerate", "tokenizers>=0.23.1,<0.24"),
    ),
)

JOEYNMT = Environment(
    name="joeynmt",
    package="joeynmt",
    version="2.3.0",
    requirements=(
        *("importlib_metadata", "matplotlib", "numpy", "packaging", "pyyaml", "sacrebleu", "six"),
        *("sentencepiece==0.2.0", "subword-nmt", "tensorboard", "tqdm"),
    ),
)


def opennmt(model: Transformer, workload: Workload, environments: Path, folder: Path) -> Measurement:
    """OpenNMT-py's Transformer."""
    config = opennmt_config(model, workload, folder)
    return _train(OPENNMT, "-config", config, workload, environments, folder, name="OpenNMT-py")


def huggingface(model: Transformer, workload: Workload, environments: Path, folder: Path) -> Measurement:
    """Hugging Face's Marian model and its Seq2SeqTrainer."""
    config = huggingface_config(model, workload, folder)
    return _train(HUGGINGFACE, "--config", config, workload, environments, folder, name="Hugging Face")


def joeynmt(
    model: LSTM | Transformer, workload: Workload, environments: Path, folder: Path, *, by_length: bool = False
) -> Measurement:
    """Joey NMT's model of that kind; its batches are of random sentences, or `by_length` of like lengths.

    It has no batches of like lengths. But it makes them one after the other from the file when it does not
    shuffle, so a file in the right order shows what its model does without so much padding.
    """
    lengths = workload.corpus.lengths
    order = like_lengths(lengths, workload.batch_tokens) if by_length else range(len(lengths))
    for language in ("en", "de"):
        lines = Path(workload.corpus.file(f"train.{language}{PIECES}")).read_text(encoding="utf-8").split("\n")
        _write_lines(folder / f"train.{language}", [lines[i] for i in order])
        _write_lines(folder / f"dev.{language}", lines[:1])  # it asks for one, but never uses it here
    config = joeynmt_config(model, workload, folder, shuffle=not by_length)
    name = "Joey NMT (sorted)" if by_length else "Joey NMT"
    return _train(JOEYNMT, "train", config, workload, environments, folder, name=name)


def like_lengths(lengths: Sequence[tuple[int, int]], batch_tokens: int) -> list[int]:
    """An order of the pairs in which Joey NMT's batches have like lengths and follow each other at random.

    Its batch is full as soon as rows × the longest side reach the budget; the last one, not full, stays last,
    or the ones behind it would begin elsewhere.
    """
    batches: list[list[int]] = [[]]
    widest = 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i][::-1]):  # by target, then by source
        batches[-1].append(i)
        widest = max(widest, *lengths[i])
        if widest * len(batches[-1]) >= batch_tokens:
            batches.append([])
            widest = 0
    rest = batches.pop()
    random.Random(1).shuffle(batches)
    return [i for batch in (*batches, rest) for i in batch]


def _train(
    environment: Environment,
    option: str,  # what its command line has before the configuration
    config: dict[str, Any],
    workload: Workload,
    environments: Path,
    folder: Path,
    *,
    name: str,
) -> Measurement:
    """One run of a peer by its driver, which stands beside this file."""
    python = environment.python(environments)
    file, metrics = folder / "config.yaml", folder / "metrics.jsonl"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    driver = str(_HERE / f"{environment.name}_train.py")
    return measure(
        [python, driver, str(metrics), str(workload.seconds), option, str(file)],
        metrics,
        workload,
        name=name,
        version=environment.version,
        log=folder / "output.log",
    )


def _write_lines(file: Path, lines: Sequence[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
