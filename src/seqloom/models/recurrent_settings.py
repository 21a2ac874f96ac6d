"""Options that all recurrent models share."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from seqloom.nn.cells import Activation, Cell, CellName, Initial, Kernel
from seqloom.nn.embedding import Tie
from seqloom.settings import ModelSettings


class RecurrentLayerSettings(ModelSettings):
    """Size and cell of recurrent layers, initialisation and dropout."""

    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "layers": 1},
        "small": {"width": 320, "layers": 2},
        "base": {"width": 640, "layers": 2},
    }

    width: int = Field(ge=2, description="width of embeddings and states")
    layers: int = Field(ge=1, le=1000, description="number of layers, of an encoder and of a decoder each")
    cell: CellName = Field("lstm", description="recurrent cell: rnn, lstm or gru")
    activation: Activation = Field(
        "tanh", description="activation of the rnn cell: tanh, sigmoid, relu or identity"
    )
    residual: bool = Field(False, description="add the input of each layer but the first to its output")
    init: Initial = Field("uniform", description="initialisation of recurrent matrices: uniform or orthogonal")
    forget_bias: float = Field(0.0, description="added to the initial bias of LSTM forget gates; 1 is common")
    kernel: Kernel = Field(
        "fused", description="fused (torch's kernel), or steps (explicit equations, one position at a time)"
    )
    dropout: float = Field(
        0.2, ge=0, lt=1, description="dropout on embeddings, between layers and before the output layer"
    )
    tie: Tie = Field(
        "auto", description="weight tying of embeddings and output layer: all, target, none or auto"
    )

    @model_validator(mode="after")
    def _has_activation(self) -> Self:
        if self.cell != "rnn" and self.activation != "tanh":
            raise ValueError(f"model.activation={self.activation} needs model.cell=rnn, not {self.cell}")
        return self

    def build_cell(self) -> Cell:
        """Return the cell of all layers."""
        return Cell(self.cell, self.activation, self.init, self.forget_bias, self.kernel)
