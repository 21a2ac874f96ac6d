"""Model architectures, one per file, and everything needed to add one: base classes, types and `register`."""

from seqloom.models.base import AutoregressiveModel, SequenceModel
from seqloom.models.language import LanguageModel, LanguageModelSettings
from seqloom.models.masked import MaskedLanguageModel, MaskedSettings
from seqloom.models.recurrent import Recurrent, RecurrentSettings
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.registry import architectures, register
from seqloom.settings import ModelSettings
from seqloom.types import Batch, Step, Tree, Vocabularies

__all__ = [
    "AutoregressiveModel",
    "Batch",
    "LanguageModel",
    "LanguageModelSettings",
    "MaskedLanguageModel",
    "MaskedSettings",
    "ModelSettings",
    "Recurrent",
    "RecurrentSettings",
    "SequenceModel",
    "Step",
    "Transformer",
    "TransformerSettings",
    "Tree",
    "Vocabularies",
    "architectures",
    "register",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
