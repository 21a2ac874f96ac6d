"""seqloom: sequence-to-sequence learning from the hidden Markov model to the Transformer.

import seqloom
translator = seqloom.train("pairs.tsv", out="runs/x", model="transformer")
seqloom.load("runs/x").translate(["a line"])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "SeqloomError",
    "__version__",
    "load",
    "load_ensemble",
    "load_filler",
    "load_generator",
    "load_scorer",
    "train",
]

if TYPE_CHECKING:
    from seqloom.errors import SeqloomError
    from seqloom.loading import load, load_ensemble, load_filler, load_generator, load_scorer
    from seqloom.pipeline import train

_HOMES = {
    "SeqloomError": "seqloom.errors",
    "load": "seqloom.loading",
    "load_ensemble": "seqloom.loading",
    "load_filler": "seqloom.loading",
    "load_generator": "seqloom.loading",
    "load_scorer": "seqloom.loading",
    "train": "seqloom.pipeline",
}


def __getattr__(name: str) -> Any:
    """Imports on first use, so that `import seqloom` costs no torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'seqloom' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
