"""Recurrent encoder-decoders: one configurable model, and presets of it."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.models.base import AutoregressiveModel
from seqloom.models.recurrent_settings import RecurrentLayerSettings
from seqloom.nn.attention import WeightsName
from seqloom.nn.context import AttentionContext, MeanContext, Window
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import embeddings_and_output
from seqloom.nn.recurrent import Direction, RecurrentEncoder, RecurrentStack
from seqloom.nn.scores import ScoreName
from seqloom.registry import register
from seqloom.types import Batch, Tree, Vocabularies


class RecurrentSettings(RecurrentLayerSettings):
    name: str = "recurrent"
    decoder_layers: int | None = Field(
        None, ge=1, le=1000, description="number of decoder layers; None = layers"
    )
    encoder_width: int | None = Field(None, ge=1, description="width of encoder states; None = width")
    direction: Direction = Field("both", description="encoder directions: both or forward")
    start: Literal["hidden", "state", "copy"] = Field(
        "hidden",
        description="first decoder state from the last encoder state: hidden (a tanh layer), state (another "
        "for the LSTM cell) or copy (no layer)",
    )
    context: Literal["last", "mean", "attention"] = Field(
        "attention",
        description="source context at every decoder step: last (initial state only), mean or attention",
    )
    score: ScoreName = Field(
        "bilinear", description="attention score: dot, scaled-dot, bilinear, additive or feed-forward"
    )
    attention_width: int | None = Field(
        None, ge=1, description="width of additive and feed-forward scores and of projections; None = width"
    )
    attention_weights: WeightsName = Field(
        "softmax", description="attention weights: softmax of the scores, or raw (the scores themselves)"
    )
    projections: Literal["none", "separate"] = Field(
        "none", description="projections of query, key and value: none, or separate matrices"
    )
    query: Literal["current", "previous"] = Field(
        "current", description="decoder state used as attention query: current or previous"
    )
    combine: Literal["tanh", "concat"] = Field(
        "tanh",
        description="combination of context and state before the output layer: a tanh layer, or concatenation",
    )
    input_feeding: bool = Field(False, description="feed the attention context into the decoder input")
    window: Window = Field("none", description="window of local attention: none, monotonic or predictive")
    window_size: int = Field(10, ge=1, description="positions on each side of the centre of local attention")
    coverage: bool = Field(False, description="make scores depend on the total weight of each position so far")

    @model_validator(mode="after")
    def _fits_together(self) -> RecurrentSettings:
        if self.direction == "both" and self.states_width % 2:
            option = "width" if self.encoder_width is None else "encoder_width"
            raise ValueError(f"model.{option}={self.states_width} must be even with model.direction=both")
        if self.start == "copy" and self.states_width != self.width:
            raise ValueError(
                f"model.start=copy needs encoder and decoder states of the same width, but model.encoder_width="
                f"{self.encoder_width} and model.width={self.width}; use model.start=hidden"
            )
        if (
            self.states_width != self.width
            and self.context == "attention"
            and self.projections == "none"
            and self.score in ("dot", "scaled-dot")
        ):
            raise ValueError(
                f"model.score={self.score} needs states of the same width, but model.encoder_width="
                f"{self.encoder_width} and model.width={self.width}; use model.score=bilinear or additive"
            )
        if self.attention_weights == "raw" and (self.context != "attention" or self.coverage):
            raise ValueError(
                "model.attention_weights=raw needs model.context=attention and model.coverage=false"
            )
        if self.context == "last" and self.input_feeding:
            raise ValueError("model.input_feeding needs model.context=mean or attention, not last")
        if self.context != "attention" and (self.coverage or self.window != "none"):
            raise ValueError(
                f"model.coverage and model.window need model.context=attention, not {self.context}"
            )
        if self.context != "last" and self.combine == "concat" and self.tie in ("all", "target"):
            raise ValueError(
                f"model.tie={self.tie} needs an output layer as wide as the embeddings, but "
                "model.combine=concat makes it wider; use model.combine=tanh"
            )
        return self

    @property
    def states_width(self) -> int:
        """Width of the encoder states."""
        return self.encoder_width or self.width


@register(
    "recurrent",
    summary="RNN, LSTM or GRU encoder-decoder, configurable by model.*",
    paper="Sutskever et al. 2014, Bahdanau et al. 2015, Luong et al. 2015",
    settings=RecurrentSettings,
)
class Recurrent(AutoregressiveModel):
    """Encoder-decoder whose decoder starts from the last encoder state and may attend to the source.

    s_0 = tanh(W h_S + b), or h_S itself with `start=copy`
    s_t = cell(y_{t-1}, s_{t-1}),  a_t = Σ α h with α = softmax(score(s_t, h)),  output = tanh(W [a_t; s_t])

    Input feeding adds to the decoder input: the previous output vector (Luong et al. 2015) or, if the query is
    the previous state, the context of the current step (Bahdanau et al. 2015).
    """

    def __init__(self, settings: RecurrentSettings, vocabularies: Vocabularies) -> None:
        super().__init__()
        width, dropout = settings.width, settings.dropout
        self.settings, self.cell = settings, settings.build_cell()
        self.attention_weights = settings.attention_weights
        self.context = _context(settings)
        context_width = self.context.width if self.context else 0
        self.combine = (
            nn.Linear(context_width + width, width) if self.context and settings.combine == "tanh" else None
        )
        output_width = width if self.combine else width + context_width
        self.source_embedding, self.target_embedding, self.output = embeddings_and_output(
            vocabularies, width, settings.tie, output_width
        )
        self.encoder = RecurrentEncoder(
            self.cell,
            settings.states_width,
            settings.layers,
            settings.direction,
            residual=settings.residual,
            dropout=dropout,
            inputs=width,
            cells=settings.start == "copy",
        )
        bridges = {"hidden": 1, "state": self.cell.parts, "copy": 0}[settings.start]
        self.bridge = nn.ModuleList(nn.Linear(settings.states_width, width) for _ in range(bridges))
        self.attends_first = settings.input_feeding and settings.query == "previous"
        self.fed_width = output_width if settings.input_feeding and not self.attends_first else 0
        self.decoder = RecurrentStack(
            self.cell,
            width + (context_width if self.attends_first else self.fed_width),
            width,
            settings.decoder_layers or settings.layers,
            residual=settings.residual,
            dropout=dropout,
        )
        self.dropout = Dropout(dropout)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        embedded = self.dropout(self.source_embedding(batch.source))
        encoded, lasts = self.encoder(embedded, batch.source_lengths)
        mask = batch.source_mask
        memory = self.context.build_memory(encoded, mask) if self.context else (mask,)
        # Decoder layer n starts from encoder layer n, and those above the top encoder layer from the top one. A
        # decoder with fewer layers is aligned at the top, so that it always gets the top encoder state.
        top = lasts[0].shape[1] - 1
        below = max(0, top + 1 - len(self.decoder.layers))
        origins = [min(below + n, top) for n in range(len(self.decoder.layers))]
        started = [part[:, origins] for part in lasts]  # each (B, layers, D)
        if self.bridge:
            started = [bridge(started[0]).tanh() for bridge in self.bridge]
        zeros = [torch.zeros_like(started[0])] * (self.cell.parts - len(started))
        state = {
            "cells": (*started, *zeros),
            "query": started[0][:, -1] if self.settings.query == "previous" else None,
            "fed": encoded.new_zeros(len(encoded), self.fed_width) if self.fed_width else None,
            "position": torch.zeros_like(batch.source_lengths) if self.settings.window == "monotonic" else None,
            "coverage": torch.zeros_like(mask, dtype=encoded.dtype) if self.settings.coverage else None,
        }
        return memory, state

    def hidden(self, batch: Batch) -> Tensor:
        """Return the inputs of the output layer at all target positions under teacher forcing, (B, T, A).

        Unless the attention of one step affects the next, this is one fused call and one batched attention.
        """
        if self.settings.input_feeding or self.settings.coverage or self.settings.kernel == "steps":
            return self.unroll(batch)[0]
        memory, state = self.start(batch)
        return self._advance(self._embed_target(batch), memory, state)[0]

    def unroll(self, batch: Batch) -> tuple[Tensor, list[Tree]]:
        """Return the same, computed step by step, (B, T, A), and the state after every position."""
        memory, state = self.start(batch)
        outputs, states = [], []
        for embedded in self._embed_target(batch).unbind(dim=1):
            output, state, _ = self._advance(embedded.unsqueeze(1), memory, state)
            outputs.append(output)
            states.append(state)
        return torch.cat(outputs, dim=1), states

    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """Return the input of the output layer (R, A), the new state and the attention."""
        embedded = self.target_embedding(last).unsqueeze(1)
        outputs, state, weights = self._advance(embedded, memory, state)
        return outputs[:, 0], state, None if weights is None else weights.unsqueeze(1)

    def _embed_target(self, batch: Batch) -> Tensor:
        assert batch.target_in is not None
        return self.dropout(self.target_embedding(batch.target_in))

    def _advance(self, x: Tensor, memory: Tree, state: Tree) -> tuple[Tensor, Tree, Tensor | None]:
        """Return outputs (R, T, A) for T more inputs (R, T, D), the new state and the weights (R, T, S)."""
        if self.attends_first:
            context, weights = self._attend(state["query"].unsqueeze(1), memory, state)
            hidden, cells = self.decoder(torch.cat((x, context), dim=-1), state["cells"])
        else:
            if self.fed_width:
                x = torch.cat((x, state["fed"].unsqueeze(1)), dim=-1)
            hidden, cells = self.decoder(x, state["cells"])
            queries = hidden
            if state["query"] is not None:
                queries = torch.cat((state["query"].unsqueeze(1), hidden[:, :-1]), dim=1)
            context, weights = self._attend(queries, memory, state)
        outputs = self._combine(context, hidden)
        after = {
            "cells": cells,
            "query": None if state["query"] is None else hidden[:, -1],
            "fed": outputs[:, -1] if self.fed_width else None,
            "position": None if state["position"] is None else state["position"] + x.shape[1],
            "coverage": None if state["coverage"] is None else state["coverage"] + weights.sum(dim=1),
        }
        return outputs, after, weights

    def _attend(self, queries: Tensor, memory: Tree, state: Tree) -> tuple[Any, Any]:
        """Return context (R, T, ·) and weights (R, T, S) for queries (R, T, D); None without a context.

        The rows of a sentence become queries to its memory, which is never copied.
        """
        if self.context is None:
            return None, None
        (rows, steps), sentences = queries.shape[:2], len(memory[-1])
        positions, coverage = state["position"], state["coverage"]
        if positions is not None:
            positions = positions.unsqueeze(1) + torch.arange(steps, device=positions.device)
            positions = positions.view(sentences, -1)
        if coverage is not None:
            coverage = coverage.view(sentences, -1, coverage.shape[-1])
        context, weights = self.context(
            queries.reshape(sentences, -1, queries.shape[-1]), memory, positions, coverage
        )
        return context.view(rows, steps, -1), weights.view(rows, steps, -1)

    def _combine(self, context: Tensor | None, hidden: Tensor) -> Tensor:
        """Return s, [a; s] or tanh(W [a; s])."""
        output = hidden if context is None else torch.cat((context, hidden), dim=-1)
        return self.dropout(self.combine(output).tanh() if self.combine else output)


def _context(settings: RecurrentSettings) -> MeanContext | AttentionContext | None:
    if settings.context == "last":
        return None
    if settings.context == "mean":
        return MeanContext(settings.states_width)
    return AttentionContext(
        settings.width,
        settings.states_width,
        score=settings.score,
        attention_width=settings.attention_width or settings.width,
        projected=settings.projections == "separate",
        window=settings.window,
        window_size=settings.window_size,
        coverage=settings.coverage,
        weights=settings.attention_weights,
    )


_SUTSKEVER = "Sutskever, Vinyals & Le 2014, arXiv:1409.3215"
_CHO = "Cho et al. 2014, arXiv:1406.1078"
_BAHDANAU = "Bahdanau, Cho & Bengio 2015, arXiv:1409.0473"
_LUONG = "Luong, Pham & Manning 2015, arXiv:1508.04025"
_BOTTLENECK = {"context": "last", "start": "state"}

# Presets, each named after the options that it sets.
for _name, _summary, _paper, _overrides in (
    (
        "rnn-last",
        "Simple RNN in both directions; the decoder gets the last encoder state only",
        _SUTSKEVER,
        {"cell": "rnn"} | _BOTTLENECK,
    ),
    (
        "rnn-notes",
        "Simple RNN in one direction; the decoder starts from a copy of the last encoder state",
        _SUTSKEVER,
        {"cell": "rnn", "layers": 1, "direction": "forward", "context": "last", "start": "copy"},
    ),
    ("gru-last", "GRU; the decoder gets the last encoder state only", _CHO, {"cell": "gru"} | _BOTTLENECK),
    (
        "lstm-last",
        "LSTM; the decoder gets the last encoder state only (the bottleneck)",
        _SUTSKEVER,
        _BOTTLENECK,
    ),
    (
        "lstm-mean",
        "LSTM; the decoder gets the mean of the encoder states at every step",
        _CHO,
        {"context": "mean"},
    ),
    ("lstm-dot", "LSTM with attention, score s·h", _LUONG, {"score": "dot"}),
    (
        "lstm-scaled-dot",
        "LSTM with attention, score s·h / √d",
        "Vaswani et al. 2017, arXiv:1706.03762",
        {"score": "scaled-dot"},
    ),
    ("lstm-bilinear", "LSTM with attention, score sᵀ W h", _LUONG, {"score": "bilinear"}),
    ("lstm-additive", "LSTM with attention, score vᵀ tanh(W₁ h + W₂ s)", _BAHDANAU, {"score": "additive"}),
    (
        "lstm-additive-feed",
        "LSTM with additive attention from the previous state, its context fed into the input",
        _BAHDANAU,
        {"score": "additive", "query": "previous", "input_feeding": True},
    ),
    (
        "gru-additive",
        "GRU with attention, score vᵀ tanh(W₁ h + W₂ s)",
        _BAHDANAU,
        {"cell": "gru", "score": "additive"},
    ),
    (
        "bilstm-deep",
        "Bidirectional LSTM, 2 encoder and 4 decoder layers with residuals, additive attention",
        "Britz et al. 2017, arXiv:1703.03906",
        {"score": "additive", "layers": 2, "decoder_layers": 4, "residual": True},
    ),
):
    register(_name, summary=_summary, paper=_paper, settings=RecurrentSettings, overrides=_overrides)(Recurrent)
