"""Recurrent encoder-decoders: one model, whose parts are named choices, and the presets made of them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.models.base import AutoregressiveModel
from seqloom.nn.cells import Activation, Cell, CellName, Initial, Kernel
from seqloom.nn.context import AttentionContext, MeanContext, Window
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import Tie, embeddings_and_output
from seqloom.nn.recurrent import Direction, RecurrentEncoder, RecurrentStack
from seqloom.nn.scores import ScoreName
from seqloom.registry import register
from seqloom.settings import ModelSettings
from seqloom.types import Batch, Tree, Vocabularies


class RecurrentSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "layers": 1},
        "small": {"width": 320, "layers": 2},
        "base": {"width": 640, "layers": 2},
    }

    name: str = "recurrent"
    width: int = Field(ge=2, description="of embeddings and states")
    layers: int = Field(ge=1, le=1000, description="of the encoder, and of the decoder")
    decoder_layers: int | None = Field(None, ge=1, le=1000, description="of the decoder, if not the same")
    cell: CellName = Field("lstm", description="rnn, lstm or gru")
    activation: Activation = Field("tanh", description="of the rnn cell: tanh, relu or identity")
    direction: Direction = Field("both", description="the encoder reads both ways, or forward only")
    residual: bool = Field(False, description="each layer but the first adds its input to its output")
    start: Literal["hidden", "state"] = Field(
        "hidden", description="what the encoder's last state starts in the decoder: hidden, or the cell too"
    )
    context: Literal["last", "mean", "attention"] = Field(
        "attention", description="of the source at every step: last = none but the start, mean, attention"
    )
    score: ScoreName = Field("bilinear", description="dot, scaled-dot, bilinear, additive, feed-forward")
    attention_width: int | None = Field(
        None, ge=1, description="of additive and feed-forward scores and of projections; None = width"
    )
    projections: Literal["none", "separate"] = Field(
        "none", description="separate = query, key and value each through a matrix of its own"
    )
    query: Literal["current", "previous"] = Field("current", description="which decoder state asks")
    combine: Literal["tanh", "concat"] = Field(
        "tanh", description="context and state before the output: through a tanh layer, or side by side"
    )
    input_feeding: bool = Field(False, description="what was seen of the source goes into the decoder's input")
    window: Window = Field("none", description="local attention: none, monotonic or predictive")
    window_size: int = Field(10, ge=1, description="positions to each side that local attention sees")
    coverage: bool = Field(False, description="scores know how much weight a position has had already")
    init: Initial = Field("uniform", description="of recurrent matrices: uniform or orthogonal")
    forget_bias: float = Field(0.0, description="added to an LSTM's forget gate at the start; 1 is common")
    kernel: Kernel = Field("fused", description="fused, or steps: the equations, one position at a time")
    dropout: float = Field(0.2, ge=0, lt=1, description="on embeddings, between layers, before the output")
    tie: Tie = Field("auto", description="embeddings that share one matrix: all, target, none, auto")

    @model_validator(mode="after")
    def _fits_together(self) -> RecurrentSettings:
        if self.direction == "both" and self.width % 2:
            raise ValueError(f"model.width={self.width} must be even: half of the encoder reads backwards")
        if self.cell != "rnn" and self.activation != "tanh":
            raise ValueError(f"model.activation={self.activation} needs model.cell=rnn, not {self.cell}")
        if self.context == "last" and self.input_feeding:
            raise ValueError("model.input_feeding has nothing to feed: model.context=last sees no source")
        if self.context != "attention" and (self.coverage or self.window != "none"):
            raise ValueError(
                f"model.coverage and model.window need model.context=attention, not {self.context}"
            )
        if self.context != "last" and self.combine == "concat" and self.tie in ("all", "target"):
            raise ValueError(
                f"model.tie={self.tie} needs an output layer as wide as the embeddings, and "
                "model.combine=concat makes it wider; take model.combine=tanh"
            )
        return self


@register(
    "recurrent",
    summary="RNN, LSTM or GRU encoder-decoder in which every part is a named choice (model.*)",
    paper="Sutskever et al. 2014, Bahdanau et al. 2015, Luong et al. 2015",
    settings=RecurrentSettings,
)
class Recurrent(AutoregressiveModel):
    """The encoder's last state starts the decoder; at every step it may look at the source, then answers.

    s_t = cell(y_{t-1}, s_{t-1}),  a_t = Σ α h with α = softmax(score(s_t, h)),  answer = tanh(W [a_t; s_t])

    Input feeding takes what was seen into the next input: the last answer (Luong et al. 2015) or, when the
    previous state asks, the context found for this very step (Bahdanau et al. 2015).
    """

    def __init__(self, settings: RecurrentSettings, vocabularies: Vocabularies) -> None:
        super().__init__()
        width, dropout = settings.width, settings.dropout
        cell = Cell(settings.cell, settings.activation, settings.init, settings.forget_bias, settings.kernel)
        self.settings, self.cell = settings, cell
        self.context = _context(settings)
        seen = self.context.width if self.context else 0
        self.combine = nn.Linear(seen + width, width) if self.context and settings.combine == "tanh" else None
        answer = width if self.combine else width + seen
        self.source_embedding, self.target_embedding, self.output = embeddings_and_output(
            vocabularies, width, settings.tie, answer
        )
        self.encoder = RecurrentEncoder(
            cell, width, settings.layers, settings.direction, residual=settings.residual, dropout=dropout
        )
        self.bridge = nn.ModuleList(
            nn.Linear(width, width) for _ in range(cell.parts if settings.start == "state" else 1)
        )
        self.looks_first = settings.input_feeding and settings.query == "previous"
        self.fed = answer if settings.input_feeding and not self.looks_first else 0
        self.decoder = RecurrentStack(
            cell,
            width + (seen if self.looks_first else self.fed),
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
        memory = self.context.remember(encoded, mask) if self.context else (mask,)
        # The stacks are joined at their bottoms, decoder layers above the encoder's top starting from its top;
        # a lower decoder is joined at the tops, so that it never misses what the encoder ends with.
        below, top = max(0, lasts.shape[1] - len(self.decoder.layers)), lasts.shape[1] - 1
        lasts = lasts[:, [min(below + n, top) for n in range(len(self.decoder.layers))]]
        started = [bridge(lasts).tanh() for bridge in self.bridge]  # each (B, layers, D)
        zeros = [torch.zeros_like(started[0])] * (self.cell.parts - len(started))
        state = {
            "cells": (*started, *zeros),
            "query": started[0][:, -1] if self.settings.query == "previous" else None,
            "fed": encoded.new_zeros(len(encoded), self.fed) if self.fed else None,
            "position": torch.zeros_like(batch.source_lengths) if self.settings.window == "monotonic" else None,
            "coverage": torch.zeros_like(mask, dtype=encoded.dtype) if self.settings.coverage else None,
        }
        return memory, state

    def hidden(self, batch: Batch) -> Tensor:
        """What the output layer sees at every target position under teacher forcing, (B, T, A).

        Unless something feeds back from the attention into the next step, all positions take one fused call
        and one batched attention.
        """
        if self.settings.input_feeding or self.settings.coverage or self.settings.kernel == "steps":
            return self.unroll(batch)[0]
        memory, state = self.start(batch)
        return self._advance(self._embed_target(batch), memory, state)[0]

    def unroll(self, batch: Batch) -> tuple[Tensor, list[Tree]]:
        """The same step by step: (B, T, A), and the state after every position."""
        memory, state = self.start(batch)
        answers, states = [], []
        for embedded in self._embed_target(batch).unbind(dim=1):
            answer, state, _ = self._advance(embedded.unsqueeze(1), memory, state)
            answers.append(answer)
            states.append(state)
        return torch.cat(answers, dim=1), states

    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """What the output layer sees in a step (R, A), the new state, the attention."""
        embedded = self.target_embedding(last).unsqueeze(1)
        answers, state, weights = self._advance(embedded, memory, state)
        return answers[:, 0], state, None if weights is None else weights.unsqueeze(1)

    def _embed_target(self, batch: Batch) -> Tensor:
        assert batch.target_in is not None
        return self.dropout(self.target_embedding(batch.target_in))

    def _advance(self, x: Tensor, memory: Tree, state: Tree) -> tuple[Tensor, Tree, Tensor | None]:
        """Answers (R, T, A) to T more inputs (R, T, D) a row, the state after, the weights (R, T, S)."""
        if self.looks_first:
            context, weights = self._look(state["query"].unsqueeze(1), memory, state)
            outputs, cells = self.decoder(torch.cat((x, context), dim=-1), state["cells"])
        else:
            if self.fed:
                x = torch.cat((x, state["fed"].unsqueeze(1)), dim=-1)
            outputs, cells = self.decoder(x, state["cells"])
            queries = outputs
            if state["query"] is not None:
                queries = torch.cat((state["query"].unsqueeze(1), outputs[:, :-1]), dim=1)
            context, weights = self._look(queries, memory, state)
        answers = self._answer(context, outputs)
        after = {
            "cells": cells,
            "query": None if state["query"] is None else outputs[:, -1],
            "fed": answers[:, -1] if self.fed else None,
            "position": None if state["position"] is None else state["position"] + x.shape[1],
            "coverage": None if state["coverage"] is None else state["coverage"] + weights.sum(dim=1),
        }
        return answers, after, weights

    def _look(self, queries: Tensor, memory: Tree, state: Tree) -> tuple[Any, Any]:
        """Context (R, T, ·) and weights (R, T, S) for queries (R, T, D); nothing if there is no context.

        The rows of a sentence become queries to its one memory, which so is never copied.
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

    def _answer(self, context: Tensor | None, outputs: Tensor) -> Tensor:
        """s, [a; s] or tanh(W [a; s])."""
        answer = outputs if context is None else torch.cat((context, outputs), dim=-1)
        return self.dropout(self.combine(answer).tanh() if self.combine else answer)


def _context(settings: RecurrentSettings) -> MeanContext | AttentionContext | None:
    if settings.context == "last":
        return None
    if settings.context == "mean":
        return MeanContext(settings.width)
    return AttentionContext(
        settings.width,
        score=settings.score,
        attention_width=settings.attention_width or settings.width,
        projected=settings.projections == "separate",
        window=settings.window,
        window_size=settings.window_size,
        coverage=settings.coverage,
    )


_SUTSKEVER = "Sutskever, Vinyals & Le 2014, arXiv:1409.3215"
_CHO = "Cho et al. 2014, arXiv:1406.1078"
_BAHDANAU = "Bahdanau, Cho & Bengio 2015, arXiv:1409.0473"
_LUONG = "Luong, Pham & Manning 2015, arXiv:1508.04025"
_BOTTLENECK = {"context": "last", "start": "state"}

# Each differs from its neighbour by what its name says.
for _name, _summary, _paper, _overrides in (
    (
        "rnn-last",
        "Simple RNN; the last state is all that the decoder gets",
        _SUTSKEVER,
        {"cell": "rnn"} | _BOTTLENECK,
    ),
    ("gru-last", "GRU; the last state is all that the decoder gets", _CHO, {"cell": "gru"} | _BOTTLENECK),
    (
        "lstm-last",
        "LSTM; the last state is all that the decoder gets (the bottleneck)",
        _SUTSKEVER,
        _BOTTLENECK,
    ),
    ("lstm-mean", "LSTM; the mean of the source's states at every step", _CHO, {"context": "mean"}),
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
