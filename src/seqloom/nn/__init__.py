"""Layers: attention, recurrent cells, positions, dropout."""

from seqloom.nn.attention import attend, dot_scores
from seqloom.nn.blocks import (
    BlockShape,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    LanguageBlock,
    Residual,
    make_norm,
)
from seqloom.nn.cells import Cell, CellWeights, RecurrentLayer, gru_cell, lstm_cell, rnn_cell
from seqloom.nn.context import AttentionContext, MeanContext
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import FrameEmbedding, Tie, embeddings_and_output
from seqloom.nn.longattention import BlockSparseAttention, LinformerAttention, WindowAttention
from seqloom.nn.masks import causal_mask, padding_mask, prefix_mask
from seqloom.nn.multihead import CrossAttention, SelfAttention
from seqloom.nn.positions import (
    Alibi,
    AttentionPositions,
    InputPositions,
    Relative,
    Rotary,
    T5Buckets,
    attention_positions,
    sinusoids,
)
from seqloom.nn.recurrent import RecurrentEncoder, RecurrentStack
from seqloom.nn.scores import PerceptronScore, ProductScore, make_score

__all__ = [
    "Alibi",
    "AttentionContext",
    "AttentionPositions",
    "BlockShape",
    "BlockSparseAttention",
    "Cell",
    "CellWeights",
    "CrossAttention",
    "DecoderBlock",
    "Dropout",
    "EncoderBlock",
    "FeedForward",
    "FrameEmbedding",
    "InputPositions",
    "LanguageBlock",
    "LinformerAttention",
    "MeanContext",
    "PerceptronScore",
    "ProductScore",
    "RecurrentEncoder",
    "RecurrentLayer",
    "RecurrentStack",
    "Relative",
    "Residual",
    "Rotary",
    "SelfAttention",
    "T5Buckets",
    "Tie",
    "WindowAttention",
    "attend",
    "attention_positions",
    "causal_mask",
    "dot_scores",
    "embeddings_and_output",
    "gru_cell",
    "lstm_cell",
    "make_norm",
    "make_score",
    "padding_mask",
    "prefix_mask",
    "rnn_cell",
    "sinusoids",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
