"""Other toolkits, each in a virtual environment of its own: set up once, then measured like seqloom.

A further peer is an `Environment`, a function that returns a `Measurement`, and its line in `PEERS`.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from measure import Measurement, measure
from workload import PIECES, Workload

from seqloom.errors import SeqloomError

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Environment:
    """What to install for a peer, beside the torch release that seqloom itself runs on."""

    name: str
    package: str
    version: str
    requirements: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()  # modules that it imports but does not need here: empty ones will do
    torch: str = field(default_factory=lambda: importlib.metadata.version("torch").split("+")[0])

    def python(self, environments: Path) -> str:
        """The interpreter of this environment, which is built first unless it stands already."""
        folder = environments / self.name
        interpreter, ready = folder / "bin" / "python", folder / "ready.json"
        recipe = json.dumps(asdict(self), sort_keys=True)
        if not ready.is_file() or ready.read_text(encoding="utf-8") != recipe:
            print(f"setting up {self.package} {self.version} in {folder} (once)", file=sys.stderr)
            self._build(folder, interpreter)
            ready.write_text(recipe, encoding="utf-8")
        return str(interpreter)

    def _build(self, folder: Path, interpreter: Path) -> None:
        venv.create(folder, clear=True, with_pip=True)
        torch = f"torch=={self.torch}"
        self._pip(interpreter, torch)
        # The peer's own pins would bring an older torch; its other requirements are named one by one.
        self._pip(interpreter, "--no-deps", f"{self.package}=={self.version}")
        self._pip(interpreter, torch, *self.requirements)
        for module in self.stubs:
            (next(folder.glob("lib/python*/site-packages")) / f"{module}.py").touch()

    def _pip(self, interpreter: Path, *arguments: str) -> None:
        command = [str(interpreter), "-m", "pip", "install", "--quiet", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SeqloomError(
                f"{self.package} could not be installed: pip ended with {done.returncode}.\n{done.stderr}",
                "see that pip can reach a package index, or leave this peer out of --peers",
            )


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


def opennmt(workload: Workload, environments: Path, folder: Path) -> Measurement:
    """OpenNMT-py, with a configuration as near to seqloom's model as it allows."""
    python = OPENNMT.python(environments)
    config, vocabulary, metrics = folder / "config.yaml", folder / "vocabulary.txt", folder / "metrics.jsonl"
    # It adds four special symbols of its own.
    vocabulary.write_text("\n".join(workload.corpus.vocabulary) + "\n", encoding="utf-8")
    config.write_text(yaml.safe_dump(_opennmt_config(workload, vocabulary, folder)), encoding="utf-8")
    driver = str(HERE / "opennmt_train.py")
    return measure(
        [python, driver, str(metrics), str(workload.seconds), "-config", str(config)],
        metrics,
        workload,
        name=OPENNMT.package,
        version=OPENNMT.version,
        log=folder / "output.log",
    )


def _opennmt_config(workload: Workload, vocabulary: Path, folder: Path) -> dict[str, Any]:
    model, corpus = workload.model, workload.corpus
    never = 10**9
    return {
        "data": {
            "train": {
                "path_src": corpus.file(f"train.en{PIECES}"),
                "path_tgt": corpus.file(f"train.de{PIECES}"),
                "transforms": [],
            }
        },
        "src_vocab": str(vocabulary),
        "tgt_vocab": str(vocabulary),
        "share_vocab": True,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "layers": model.layers,
        "hidden_size": model.width,
        "word_vec_size": model.width,
        "heads": model.heads,
        "transformer_ff": model.ffn,
        "add_qkvbias": True,  # as in seqloom
        "dropout": [model.dropout],
        "attention_dropout": [0.0],  # as in seqloom; dropping attention weights would cost it time
        "label_smoothing": model.label_smoothing,
        "param_init": 0.0,
        "param_init_glorot": True,
        "optim": "adam",
        "adam_beta2": 0.998,
        "decay_method": "noam",
        "learning_rate": 2.0,
        "warmup_steps": 4000,
        "max_grad_norm": 1.0,
        "normalization": "tokens",
        "batch_type": "tokens",
        "batch_size": workload.batch_tokens,
        # One epoch a bucket. The default of 262,144 sentences pads less (4 % of the target, not 12 %), but
        # its two workers then keep both cores busy for minutes, and hardly an update is made meanwhile.
        "bucket_size": 29_000,
        "model_dtype": "fp32",
        "train_steps": never,
        "valid_steps": never,
        "save_checkpoint_steps": never,
        "save_model": str(folder / "model"),
        "report_every": 1,
        "seed": 1,
    }


PEERS: dict[str, Callable[[Workload, Path, Path], Measurement]] = {"opennmt": opennmt}
