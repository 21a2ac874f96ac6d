"""seqloom: sequence-to-sequence learning from the hidden Markov model to the Transformer.

import seqloom
translator = seqloom.train("pairs.tsv", out="runs/x", model="transformer")
seqloom.load("runs/x").translate(["a line"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["SeqloomError", "__version__", "load", "train"]

if TYPE_CHECKING:
    from seqloom.errors import SeqloomError
    from seqloom.pipeline import train
    from seqloom.run import load


def __getattr__(name: str) -> Any:
    """Imports on first use, so that `import seqloom` costs no torch."""
    if name == "train":
        from seqloom.pipeline import train

        return train
    if name == "load":
        from seqloom.run import load

        return load
    if name == "SeqloomError":
        from seqloom.errors import SeqloomError

        return SeqloomError
    raise AttributeError(f"module 'seqloom' has no attribute {name!r}")
