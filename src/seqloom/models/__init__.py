"""Model architectures, one per file, and everything needed to add one: base classes, types and `register`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import lazily

__all__ = [
    "AutoregressiveModel",
    "Batch",
    "LanguageModel",
    "LanguageModelSettings",
    "MaskedLanguageModel",
    "MaskedSettings",
    "ModelSettings",
    "Recurrent",
    "RecurrentLanguageModel",
    "RecurrentLanguageSettings",
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

if TYPE_CHECKING:
    from seqloom.models.base import AutoregressiveModel, SequenceModel
    from seqloom.models.language import LanguageModel, LanguageModelSettings
    from seqloom.models.masked import MaskedLanguageModel, MaskedSettings
    from seqloom.models.recurrent import Recurrent, RecurrentSettings
    from seqloom.models.recurrent_language import RecurrentLanguageModel, RecurrentLanguageSettings
    from seqloom.models.transformer import Transformer, TransformerSettings
    from seqloom.registry import architectures, register
    from seqloom.settings import ModelSettings
    from seqloom.types import Batch, Step, Tree, Vocabularies

__getattr__, __dir__ = lazily(
    "seqloom.models",
    {
        "AutoregressiveModel": "seqloom.models.base",
        "Batch": "seqloom.types",
        "LanguageModel": "seqloom.models.language",
        "LanguageModelSettings": "seqloom.models.language",
        "MaskedLanguageModel": "seqloom.models.masked",
        "MaskedSettings": "seqloom.models.masked",
        "ModelSettings": "seqloom.settings",
        "Recurrent": "seqloom.models.recurrent",
        "RecurrentLanguageModel": "seqloom.models.recurrent_language",
        "RecurrentLanguageSettings": "seqloom.models.recurrent_language",
        "RecurrentSettings": "seqloom.models.recurrent",
        "SequenceModel": "seqloom.models.base",
        "Step": "seqloom.types",
        "Transformer": "seqloom.models.transformer",
        "TransformerSettings": "seqloom.models.transformer",
        "Tree": "seqloom.types",
        "Vocabularies": "seqloom.types",
        "architectures": "seqloom.registry",
        "register": "seqloom.registry",
    },
)
