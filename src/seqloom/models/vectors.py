"""Encoder-decoders whose targets are vectors or distributions, decoded step by step.

s_t = decoder(y_{t-1}, s_{t-1}, x),  y_t = W s_t + b, or softmax(W s_t + b),  P(end) = sigmoid(v s_t + c)
"""

from __future__ import annotations

from seqloom.models.base import VectorModel
from seqloom.models.recurrent import Recurrent, RecurrentSettings
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.registry import Task, register
from seqloom.types import Vocabularies

PREDICT = Task(
    "predict",
    model="lstm-vectors",
    noises=frozenset({"none"}),
    reads_frames=True,
    writes_vectors=True,
    metrics="nmse",
)
_DEFAULTS = {"text.target_tokenizer": "vectors", "train.label_smoothing": 0.0}


class RecurrentVectorSettings(RecurrentSettings):
    name: str = "lstm-vectors"


class TransformerVectorSettings(TransformerSettings):
    name: str = "transformer-vectors"


@register(
    "lstm-vectors",
    summary="LSTM with additive attention whose targets are vectors or distributions",
    paper="Bahdanau, Cho & Bengio 2015, arXiv:1409.0473; end of the output: Shen et al. 2018, arXiv:1712.05884",
    settings=RecurrentVectorSettings,
    overrides={"score": "additive"},
    task=PREDICT,
    defaults=_DEFAULTS,
)
class RecurrentVectors(VectorModel, Recurrent):
    """Recurrent encoder-decoder of vectors."""

    def __init__(self, settings: RecurrentVectorSettings, vocabularies: Vocabularies) -> None:
        super().__init__(settings, vocabularies)
        self.check_targets(vocabularies)


@register(
    "transformer-vectors",
    summary="Transformer whose targets are vectors or distributions",
    paper="Vaswani et al. 2017, arXiv:1706.03762; end of the output: Shen et al. 2018, arXiv:1712.05884",
    settings=TransformerVectorSettings,
    task=PREDICT,
    defaults=_DEFAULTS,
)
class TransformerVectors(VectorModel, Transformer):
    """Transformer encoder-decoder of vectors."""

    def __init__(self, settings: TransformerVectorSettings, vocabularies: Vocabularies) -> None:
        super().__init__(settings, vocabularies)
        self.check_targets(vocabularies)
