"""Other toolkits, each in its own virtual environment, with a model as close to seqloom's as possible.

To add a toolkit, define an `Environment`, a driver that records its updates and a function that returns a
`Measurement`, and add the function to TOOLKITS in train.py.
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
    """Train the Transformer of OpenNMT-py."""
    config = opennmt_config(model, workload, folder)
    return _train(OPENNMT, "-config", config, workload, environments, folder, name="OpenNMT-py")


def huggingface(model: Transformer, workload: Workload, environments: Path, folder: Path) -> Measurement:
    """Train Hugging Face's Marian model with the Seq2SeqTrainer."""
    config = huggingface_config(model, workload, folder)
    return _train(HUGGINGFACE, "--config", config, workload, environments, folder, name="Hugging Face")


def joeynmt(
    model: LSTM | Transformer, workload: Workload, environments: Path, folder: Path, *, by_length: bool = False
) -> Measurement:
    """Train the same kind of model with Joey NMT, with random batches or batches of similar length.

    Joey NMT cannot batch by length. Without shuffling, it fills batches in file order, so a suitably ordered
    file (`by_length`) measures its model with little padding.
    """
    lengths = workload.corpus.lengths
    order = order_by_length(lengths, workload.batch_tokens) if by_length else range(len(lengths))
    for language in ("en", "de"):
        lines = Path(workload.corpus.file(f"train.{language}{PIECES}")).read_text(encoding="utf-8").split("\n")
        _write_lines(folder / f"train.{language}", [lines[i] for i in order])
        _write_lines(folder / f"dev.{language}", lines[:1])  # required, but not used here
    config = joeynmt_config(model, workload, folder, shuffle=not by_length)
    name = "Joey NMT (sorted)" if by_length else "Joey NMT"
    return _train(JOEYNMT, "train", config, workload, environments, folder, name=name)


def order_by_length(lengths: Sequence[tuple[int, int]], batch_tokens: int) -> list[int]:
    """Return an order of the pairs that gives Joey NMT batches of similar length, in random order.

    A batch is full when rows × longest side reaches the budget. The incomplete batch stays last; elsewhere it
    would shift the boundaries of all batches after it.
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
    option: str,  # command-line argument before the configuration file
    config: dict[str, Any],
    workload: Workload,
    environments: Path,
    folder: Path,
    *,
    name: str,
) -> Measurement:
    """Run the driver of a toolkit and return its measurement."""
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
