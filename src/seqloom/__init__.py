"""seqloom: sequence-to-sequence learning, from the hidden Markov model to the Transformer.

import seqloom
translator = seqloom.train("pairs.tsv", out="runs/x", model="transformer")
seqloom.load("runs/x").translate(["a line"])
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from seqloom.lazy import lazily

__version__ = "0.1.0"
__all__ = [
    "Hypothesis",
    "Request",
    "Run",
    "SamplingConfig",
    "SearchConfig",
    "SeqloomError",
    "__version__",
    "architectures",
    "data",
    "evaluate",
    "inspect",
    "load",
    "load_ensemble",
    "load_filler",
    "load_generator",
    "load_scorer",
    "models",
    "nn",
    "register",
    "text",
    "train",
]

if TYPE_CHECKING:
    from seqloom import data, evaluate, inspect, models, nn, text
    from seqloom.decode.config import SamplingConfig, SearchConfig
    from seqloom.decode.select import load
    from seqloom.errors import SeqloomError
    from seqloom.registry import architectures, register
    from seqloom.run.directory import Run
    from seqloom.run.load import load_ensemble, load_filler, load_generator, load_scorer
    from seqloom.run.train import train
    from seqloom.types import Hypothesis, Request

__getattr__, __dir__ = lazily(
    "seqloom",
    {
        "Hypothesis": "seqloom.types",
        "Request": "seqloom.types",
        "Run": "seqloom.run.directory",
        "SamplingConfig": "seqloom.decode.config",
        "SearchConfig": "seqloom.decode.config",
        "SeqloomError": "seqloom.errors",
        "architectures": "seqloom.registry",
        "data": "seqloom.data",
        "evaluate": "seqloom.evaluate",
        "inspect": "seqloom.inspect",
        "load": "seqloom.decode.select",
        "load_ensemble": "seqloom.run.load",
        "load_filler": "seqloom.run.load",
        "load_generator": "seqloom.run.load",
        "load_scorer": "seqloom.run.load",
        "models": "seqloom.models",
        "nn": "seqloom.nn",
        "register": "seqloom.registry",
        "text": "seqloom.text",
        "train": "seqloom.run.train",
    },
)

logging.getLogger("seqloom").addHandler(logging.NullHandler())  # silent unless logging is configured
