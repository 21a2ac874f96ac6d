"""An unknown name is an error everywhere in seqloom.nn, never a silent default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.nn.blocks import BlockShape, FeedForward, make_norm
from seqloom.nn.cells import Cell, CellWeights, rnn_cell
from seqloom.nn.context import AttentionContext
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import embeddings_and_output
from seqloom.nn.positions import InputPositions, attention_positions
from seqloom.nn.recurrent import RecurrentEncoder
from seqloom.nn.scores import make_score
from seqloom.types import Vocabularies


def _shape(**choices: Any) -> BlockShape:
    return BlockShape(width=8, heads=2, qk_width=4, v_width=4, ffn=8, dropout=0.0, **choices)


def _context(window: Any) -> AttentionContext:
    return AttentionContext(
        8, 8, score="dot", attention_width=8, projected=False, window=window, window_size=2, coverage=False
    )


def _rnn(activation: Any) -> None:
    weights = CellWeights(torch.eye(2), torch.eye(2), torch.zeros(2), torch.zeros(2))
    rnn_cell(torch.ones(1, 2), (torch.ones(1, 2),), weights, activation)


def _encoder(direction: Any, width: int = 8) -> RecurrentEncoder:
    return RecurrentEncoder(Cell("lstm"), width, 1, direction, residual=False, dropout=0.0)


def _attention_positions(name: Any) -> None:
    attention_positions(name, 2, 4, 4, causal=False, scaled=True, clip=4)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "cell": Cell,
    "cell activation": lambda name: Cell("rnn", activation=name),
    "activation of one step": _rnn,
    "initialisation": lambda name: Cell("lstm", init=name),
    "kernel": lambda name: Cell("lstm", kernel=name),
    "direction": _encoder,
    "score": lambda name: make_score(name, 8, 8, 8, coverage=False),
    "window": _context,
    "positions at the input": lambda name: InputPositions(name, 8, 16),
    "positions in attention": _attention_positions,
    "positions of blocks": lambda name: _shape(positions=name),
    "activation of blocks": lambda name: _shape(activation=name),
    "feed-forward": lambda name: FeedForward(8, 8, name, 0.0),
    "norm": lambda name: make_norm(name, 8),
    "norm of blocks": lambda name: _shape(norm=name),
    "place of the norm": lambda name: _shape(norm_place=name),
    "tie": lambda name: embeddings_and_output(Vocabularies(9, 9, True), 8, name),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", ["sigmoids", "", None])
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(maker: str, name: Any) -> None:
    with pytest.raises(SeqloomError) as caught:
        MAKERS[maker](name)
    assert str(name) in caught.value.message
    assert caught.value.hint


def test_a_feed_forward_without_activation_is_refused() -> None:
    with pytest.raises(SeqloomError, match="'none'"):
        FeedForward(8, 8, "none", 0.0)


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_a_dropout_that_is_not_a_probability_is_refused(p: float) -> None:
    with pytest.raises(SeqloomError, match="dropout"):
        Dropout(p)


def test_only_the_rnn_cell_has_an_activation() -> None:
    with pytest.raises(SeqloomError, match="activation relu is supported by the rnn cell"):
        Cell("lstm", activation="relu")


def test_a_bidirectional_encoder_needs_an_even_width() -> None:
    assert _encoder("forward", width=7) is not None
    with pytest.raises(SeqloomError, match="width 7 is odd"):
        _encoder("both", width=7)


def test_a_product_needs_equal_widths() -> None:
    with pytest.raises(SeqloomError, match="dot needs queries and keys of the same width, got 8 and 6"):
        make_score("dot", 8, 6, 8, coverage=False)
