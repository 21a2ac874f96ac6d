from __future__ import annotations

import pytest

from seqloom.training.optimizer import layer_name


@pytest.mark.parametrize(
    "parameter, layer",
    [
        ("encoder.3.attention.query.weight", "encoder.3"),
        ("encoder.forwards.0.weight_ih_l0", "encoder.forwards.0"),
        ("decoder.layers.11.norms.0.bias", "decoder.layers.11"),
        ("0.weight", "0"),
        ("output.bias", "output"),
        ("source_embedding.table.weight", "source_embedding"),
        ("conv2d.weight", "conv2d"),
        ("scale", "scale"),
    ],
)
def test_a_layer_is_named_up_to_its_number(parameter: str, layer: str) -> None:
    assert layer_name(parameter) == layer
