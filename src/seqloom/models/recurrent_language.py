"""Recurrent language models: of text, or of targets with the source as prefix."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.models.base import AutoregressiveModel
from seqloom.models.recurrent_settings import RecurrentLayerSettings
from seqloom.nn.cells import State
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import embeddings_and_output
from seqloom.nn.recurrent import RecurrentStack
from seqloom.registry import CONTINUE, register
from seqloom.types import Batch, Tree, Vocabularies


class RecurrentLanguageSettings(RecurrentLayerSettings):
    name: str = "lstm-lm"


class RecurrentLanguageModel(AutoregressiveModel):
    """p(y_t | x, y_<t) by one stack that reads x and then y; for plain text, x is EOS only.

    h_t = cell(y_{t-1}, h_{t-1}),  P(y_t | x, y_<t) = softmax(V h_t + c); h_0 is the state after x.
    """

    def __init__(self, settings: RecurrentLanguageSettings, vocabularies: Vocabularies) -> None:
        super().__init__()
        width, self.cell = settings.width, settings.build_cell()
        self.source_embedding, self.target_embedding, self.output = embeddings_and_output(
            vocabularies, width, settings.tie
        )
        self.decoder = RecurrentStack(
            self.cell, width, width, settings.layers, residual=settings.residual, dropout=settings.dropout
        )
        self.dropout = Dropout(settings.dropout)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return no memory, and the state after each source; padding does not change it."""
        embedded = self.dropout(self.source_embedding(batch.source))
        zeros = embedded.new_zeros(len(embedded), len(self.decoder.layers), embedded.shape[2])
        state: State = (zeros,) * self.cell.parts
        for x, real in zip(embedded.unbind(dim=1), batch.source_mask.unbind(dim=1), strict=True):
            _, after = self.decoder(x.unsqueeze(1), state)
            pairs = zip(after, state, strict=True)
            state = tuple(torch.where(real[:, None, None], new, old) for new, old in pairs)
        return None, state

    def hidden(self, batch: Batch) -> Tensor:
        """Return the inputs of the output layer at all target positions under teacher forcing, (B, T, D)."""
        _, state = self.start(batch)
        outputs, _ = self.decoder(self._embed_target(batch), state)
        return self.dropout(outputs)

    def unroll(self, batch: Batch) -> tuple[Tensor, list[Tree]]:
        """Return the same, computed step by step, and the state after every position."""
        _, state = self.start(batch)
        outputs, states = [], []
        for x in self._embed_target(batch).unbind(dim=1):
            output, state = self.decoder(x.unsqueeze(1), state)
            outputs.append(self.dropout(output))
            states.append(state)
        return torch.cat(outputs, dim=1), states

    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, None]:
        """Return the input of the output layer (R, D) and the new state; there is no attention."""
        output, state = self.decoder(self.target_embedding(last).unsqueeze(1), state)
        return output[:, 0], state, None

    def _embed_target(self, batch: Batch) -> Tensor:
        assert batch.target_in is not None
        return self.dropout(self.target_embedding(batch.target_in))


for _name, _summary, _paper in (
    ("rnn-lm", "Language model of a simple RNN", "Mikolov et al. 2010"),
    (
        "lstm-lm",
        "Language model of an LSTM",
        "Sundermeyer, Schlüter & Ney 2012; Zaremba et al. 2014, arXiv:1409.2329",
    ),
    ("gru-lm", "Language model of a GRU", "Chung et al. 2014, arXiv:1412.3555"),
):
    register(
        _name,
        summary=f"{_summary}, for text, or for pairs with the source as prefix",
        paper=_paper,
        settings=RecurrentLanguageSettings,
        overrides={"cell": _name.removesuffix("-lm")},
        task=CONTINUE,
    )(RecurrentLanguageModel)
