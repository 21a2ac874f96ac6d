"""An LSTM encoder-decoder with attention (Luong et al. 2015): bilinear scores, no input feeding."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.nn.attention import attend, dot_scores
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import Tie, embeddings_and_output
from seqloom.nn.recurrent import BidirectionalLSTM, LSTMStack
from seqloom.registry import register
from seqloom.settings import ModelSettings
from seqloom.types import Batch, Step, Tree, Vocabularies


class RNNSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "layers": 1},
        "small": {"width": 320, "layers": 2},
        "base": {"width": 640, "layers": 2},
    }

    name: Literal["rnn"] = "rnn"
    width: int = Field(ge=2, description="of embeddings and states")
    layers: int = Field(ge=1, description="of the encoder and of the decoder")
    dropout: float = Field(0.2, ge=0, lt=1, description="on embeddings, between layers, before the output")
    tie: Tie = Field("auto", description="embeddings that share one matrix: all, target, none, auto")

    @model_validator(mode="after")
    def _two_directions(self) -> RNNSettings:
        if self.width % 2:
            raise ValueError(f"model.width={self.width} must be even: half of the encoder reads backwards")
        return self


@register(
    "rnn",
    summary="Bidirectional LSTM encoder, LSTM decoder with bilinear attention",
    paper="Luong, Pham & Manning 2015, arXiv:1508.04025",
    settings=RNNSettings,
)
class RNN(nn.Module):
    """The decoder's states query the encoder's states: e = sᵀ W h, a = Σ α h, output from tanh(W[a; s])."""

    def __init__(self, settings: RNNSettings, vocabularies: Vocabularies) -> None:
        super().__init__()
        width = settings.width
        self.source_embedding, self.target_embedding, self.output = embeddings_and_output(
            vocabularies, width, settings.tie
        )
        self.encoder = BidirectionalLSTM(width, settings.layers, settings.dropout)
        self.start_hidden = nn.Linear(width, width)
        self.decoder = LSTMStack(width, settings.layers, settings.dropout)
        self.query = nn.Linear(width, width, bias=False)  # the W of sᵀ W h
        self.combine = nn.Linear(2 * width, width)
        self.dropout = Dropout(settings.dropout)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        embedded = self.dropout(self.source_embedding(batch.source))
        encoded, lasts = self.encoder(embedded, batch.source_lengths)
        hidden = self.start_hidden(lasts).tanh()  # (B, layers, D)
        return (encoded, batch.source_mask), (hidden, torch.zeros_like(hidden))

    def _attend(self, states: Tensor, memory: Tree) -> tuple[Tensor, Tensor]:
        """What the output layer sees, (B, T, D), and the weights, (B, T, S), for states (B, T, D)."""
        encoded, mask = memory
        context, weights = attend(
            dot_scores(self.query(states), encoded, scaled=False), encoded, mask.unsqueeze(1)
        )
        combined = self.combine(torch.cat((context, states), dim=-1)).tanh()
        return self.dropout(combined), weights

    def hidden(self, batch: Batch) -> Tensor:
        """What the output layer sees at every target position under teacher forcing, (B, T, D).

        The attention feeds nothing back into the recurrence, so all positions take one fused call.
        """
        memory, state = self.start(batch)
        states, _ = self.decoder(self.dropout(self.target_embedding(batch.target_in)), state)
        return self._attend(states, memory)[0]

    def forward(self, batch: Batch) -> Tensor:
        """Logits, (B, T, V)."""
        return self.output(self.hidden(batch))

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        states, state = self.decoder(self.target_embedding(last).unsqueeze(1), state)  # (R, 1, D)
        grouped = states.view(memory[0].shape[0], -1, states.shape[-1])  # (B, K, D): K queries a sentence
        combined, weights = self._attend(grouped, memory)
        log_probs = self.output(combined.flatten(0, 1)).log_softmax(-1)
        return Step(log_probs, state, weights.flatten(0, 1))
