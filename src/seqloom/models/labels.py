"""Models of labels: one per word (taggers), or one per sequence (classifiers).

h = encode(x),  P(y_j | x) = softmax(W Σ_i a_ji h_i + b), where a_j is the mean over the tokens of word j, or
the pooling of the whole sequence. Labels do not depend on each other, and their number follows from the source.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.models.base import AutoregressiveModel
from seqloom.models.recurrent_settings import RecurrentLayerSettings
from seqloom.models.stack import Encoder, EncoderStackSettings, initialise
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import source_embedding
from seqloom.nn.pooling import PoolingName, SequencePooling, WeightedSum, WordPooling, last_position
from seqloom.nn.recurrent import Direction, RecurrentEncoder
from seqloom.registry import Task, register
from seqloom.settings import Settings
from seqloom.types import BOS, EOS, PAD, Batch, Tree, Vocabularies

_CERTAIN = 1e4  # difference of logits that makes a probability exactly 0 or 1 in floating point


def _one_tag_per_word(words: int, labels: int) -> str | None:
    return None if words == labels else f"the source has {words} words, but the target has {labels} tags"


def _one_class(words: int, labels: int) -> str | None:
    return None if labels == 1 else f"the target has {labels} words, but a class is one word"


_NO_NOISE = frozenset({"none"})
_METRICS = "accuracy,macro-f1"
TAG = Task(
    "tag",
    model="bilstm-tagger",
    noises=_NO_NOISE,
    keeps_words=True,
    mismatch=_one_tag_per_word,
    metrics=_METRICS,
)
CLASSIFY = Task(
    "classify",
    model="bilstm-classifier",
    noises=_NO_NOISE,
    reads_frames=True,
    mismatch=_one_class,
    metrics=_METRICS,
)


class LabelOutput(nn.Linear):
    """Output layer for a vector and a last component that is 1 after the last label, and −1 before.

    The weights of the end of the sequence start such that it has the probability 1 after the last label, and
    0 before, exactly. Their gradient is therefore 0, and they keep their values.
    """

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__(width + 1, vocabulary)
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)
        with torch.no_grad():
            self.weight[EOS] = 0.0
            self.weight[EOS, -1] = _CERTAIN
            self.bias[[PAD, BOS]] = -2 * _CERTAIN


class LabelModel(AutoregressiveModel):
    """Encoder, pooling and output layer; a step of a search returns the distribution of the next label."""

    pooling: WordPooling | SequencePooling
    sum: WeightedSum
    output: LabelOutput

    @abstractmethod
    def encode(self, batch: Batch) -> Tensor:
        """Return the encoded source, (B, S, D)."""

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return the inputs of the output layer for all labels and the end, and the pooling weights."""
        states = self.encode(batch)
        weights, count = self.pooling(states, batch)
        end = last_position(batch, states.dtype)
        weights = torch.cat((weights, end), dim=1)
        ended = torch.arange(weights.shape[1], device=count.device) >= count.unsqueeze(1)  # (B, N + 1)
        weights = torch.where(ended.unsqueeze(-1), end, weights)
        is_end = torch.where(ended, 1.0, -1.0).to(states.dtype).unsqueeze(-1)
        return (torch.cat((self.sum(weights, states), is_end), dim=-1), weights), torch.zeros_like(count)

    def hidden(self, batch: Batch) -> Tensor:
        """Return the inputs of the output layer at all target positions, (B, T, D + 1)."""
        assert batch.target_in is not None
        (vectors, _), _ = self.start(batch)
        positions = torch.arange(batch.target_in.shape[1], device=vectors.device)
        return vectors[:, positions.clamp_max(vectors.shape[1] - 1)]

    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, Tensor]:
        """Return the input of the output layer (R, D + 1), the next position and the pooling weights."""
        vectors, weights = memory
        sentence = torch.arange(len(last), device=last.device) // (len(last) // len(vectors))
        position = state.clamp_max(vectors.shape[1] - 1)
        return vectors[sentence, position], state + 1, weights[sentence, position][:, None, None]


class RecurrentLabelSettings(RecurrentLayerSettings):
    direction: Direction = Field("both", description="encoder directions: both or forward")

    @model_validator(mode="after")
    def _fits_the_output(self) -> Self:
        _check_untied(self.name, self.tie)
        if self.direction == "both" and self.width % 2:
            raise ValueError(f"model.width={self.width} must be even with model.direction=both")
        return self


class TransformerLabelSettings(EncoderStackSettings):
    @model_validator(mode="after")
    def _fits_the_output(self) -> Self:
        _check_untied(self.name, self.tie)
        return self


class PoolingSettings(Settings):
    """Option of classifiers."""

    pooling: PoolingName = Field(
        "attention",
        description="vector of a sequence: last (the last position), mean, or attention (a learned weighting)",
    )


class BiLstmTaggerSettings(RecurrentLabelSettings):
    name: str = "bilstm-tagger"


class TransformerTaggerSettings(TransformerLabelSettings):
    name: str = "transformer-tagger"


class BiLstmClassifierSettings(PoolingSettings, RecurrentLabelSettings):
    name: str = "bilstm-classifier"


class TransformerClassifierSettings(PoolingSettings, TransformerLabelSettings):
    name: str = "transformer-classifier"


def _check_untied(name: str, tie: str) -> None:
    if tie in ("all", "target"):
        raise ValueError(
            f"model.tie={tie} is not supported by {name}, which has no target embedding; leave it out"
        )


class RecurrentLabels(LabelModel):
    """Recurrent encoder with an output per word or sequence."""

    def __init__(
        self,
        settings: RecurrentLabelSettings,
        vocabularies: Vocabularies,
        pooling: WordPooling | SequencePooling,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding(vocabularies, settings.width)
        self.encoder = RecurrentEncoder(
            settings.build_cell(),
            settings.width,
            settings.layers,
            settings.direction,
            residual=settings.residual,
            dropout=settings.dropout,
        )
        self.dropout = Dropout(settings.dropout)
        self.pooling, self.sum = pooling, WeightedSum(settings.width)
        self.output = LabelOutput(settings.width, vocabularies.target)

    def encode(self, batch: Batch) -> Tensor:
        embedded = self.dropout(self.source_embedding(batch.source))
        return self.dropout(self.encoder(embedded, batch.source_lengths)[0])


class TransformerLabels(Encoder, LabelModel):
    """Transformer encoder with an output per word or sequence."""

    def __init__(
        self,
        settings: TransformerLabelSettings,
        vocabularies: Vocabularies,
        pooling: WordPooling | SequencePooling,
    ) -> None:
        super().__init__(settings, source_embedding(vocabularies, settings.width))
        initialise(self.encoder)
        self.pooling, self.sum = pooling, WeightedSum(settings.width)
        self.output = LabelOutput(settings.width, vocabularies.target)


def _tagger(
    model: Callable[..., LabelModel],
) -> Callable[[RecurrentLabelSettings | TransformerLabelSettings, Vocabularies], LabelModel]:
    """Return the builder of a tagger with this encoder."""

    def build(
        settings: RecurrentLabelSettings | TransformerLabelSettings, vocabularies: Vocabularies
    ) -> LabelModel:
        return model(settings, vocabularies, WordPooling(vocabularies.word_starts, vocabularies.source))

    return build


def _classifier(
    model: Callable[..., LabelModel],
) -> Callable[[BiLstmClassifierSettings | TransformerClassifierSettings, Vocabularies], LabelModel]:
    """Return the builder of a classifier with this encoder."""

    def build(
        settings: BiLstmClassifierSettings | TransformerClassifierSettings, vocabularies: Vocabularies
    ) -> LabelModel:
        return model(settings, vocabularies, SequencePooling(settings.pooling, settings.width))

    return build


_DEFAULTS = {"text.target_tokenizer": "word", "text.joint": False, "train.label_smoothing": 0.0}
_TRANSFORMER_PAPER = "Vaswani et al. 2017, arXiv:1706.03762; Devlin et al. 2019, arXiv:1810.04805"

for _settings, _task, _build, _summary, _paper in (
    (
        BiLstmTaggerSettings,
        TAG,
        _tagger(RecurrentLabels),
        "Bidirectional LSTM with one label per word",
        "Huang, Xu & Yu 2015, arXiv:1508.01991",
    ),
    (
        TransformerTaggerSettings,
        TAG,
        _tagger(TransformerLabels),
        "Transformer encoder with one label per word",
        _TRANSFORMER_PAPER,
    ),
    (
        BiLstmClassifierSettings,
        CLASSIFY,
        _classifier(RecurrentLabels),
        "Bidirectional LSTM with one label per text or feature sequence",
        "Yang et al. 2016, Hierarchical Attention Networks",
    ),
    (
        TransformerClassifierSettings,
        CLASSIFY,
        _classifier(TransformerLabels),
        "Transformer encoder with one label per text or feature sequence",
        _TRANSFORMER_PAPER,
    ),
):
    register(
        _settings.model_fields["name"].default,
        summary=_summary,
        paper=_paper,
        settings=_settings,
        task=_task,
        defaults=_DEFAULTS,
    )(_build)
