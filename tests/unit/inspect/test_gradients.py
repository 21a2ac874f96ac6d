"""Gradient norms by distance: counts, supported models, and the figure."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn

from seqloom.data.batching import collate_ids
from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.inspect.gradient_picture import gradient_picture
from seqloom.inspect.gradients import Curve, GradientFlow, longest_batches, measure_gradients
from seqloom.nn.recurrent import RecurrentEncoder
from seqloom.registry import FILL, architecture, architectures
from seqloom.types import Batch, Vocabularies

LONG, SHORT = ([5, 6, 7], [8, 9, 10, 11]), ([5], [9])


def build(name: str, **fields: Any) -> nn.Module:
    torch.manual_seed(1)
    entry = architecture(name)
    sizes: dict[str, int] = {key: 8 for key in ("width", "ffn") if key in entry.settings.model_fields}
    values = {"size": "tiny", **entry.overrides, **sizes, **fields, "name": name}
    model: nn.Module = entry.build(entry.settings.model_validate(values), Vocabularies(20, 20, True))
    return model


def batch(*pairs: tuple[list[int], list[int]]) -> Batch:
    sources, targets = zip(*pairs, strict=True)
    heads = [[0] * len(source) for source in sources]  # for models that read trees
    return collate_ids(sources, targets, range(len(pairs)), heads)


NEURAL = architectures(fitted=False).items()
WITH_TARGET = [
    name
    for name, entry in NEURAL
    if entry.task is not FILL and entry.task.mismatch is None and not entry.task.writes_vectors
]


@pytest.mark.parametrize("name", WITH_TARGET)
def test_every_architecture_with_a_target_can_be_measured(name: str) -> None:
    model = build(name)
    flow = measure_gradients(model, [batch(LONG, SHORT)], name=name)
    kinds = {"source", "target"}
    if hasattr(model, "unroll"):
        kinds |= {"hidden", "cell"} if model.cell.parts == 2 else {"hidden"}  # type: ignore[union-attr]
    if any(isinstance(module, RecurrentEncoder) for module in model.modules()):
        kinds.add("encoder")
    assert set(flow.curves) == kinds
    for kind, curve in flow.curves.items():
        length = 4 if kind in ("source", "encoder") else 5
        assert len(curve.norm) == len(curve.ratio) == len(curve.count) == length
        assert min(curve.norm) > 0
        assert curve.ratio[0] == pytest.approx(1)
    assert (flow.prediction is not None) == name.startswith("rnn-")
    assert flow.sentences == 2


def test_only_real_steps_and_positions_count() -> None:
    curves = measure_gradients(build("gru-additive"), [batch(LONG, SHORT)]).curves
    assert curves["hidden"].count == curves["target"].count == [5 + 2, 4 + 1, 3, 2, 1]
    assert curves["source"].count == [5 + 2, 5 + 2, 5, 5]  # every target step of a row, every source position


@pytest.mark.parametrize("name", ["transformer", "lstm-additive-feed"])
def test_means_do_not_depend_on_batching(name: str) -> None:
    model = build(name).double()
    together = measure_gradients(model, [batch(LONG, SHORT)])
    apart = measure_gradients(model, [batch(LONG), batch(SHORT)])
    assert together.curves.keys() == apart.curves.keys()
    for kind, curve in together.curves.items():
        assert curve.norm == pytest.approx(apart.curves[kind].norm)
        assert curve.ratio == pytest.approx(apart.curves[kind].ratio)
        assert curve.count == apart.curves[kind].count


def test_a_ratio_compares_the_same_rows_and_steps() -> None:
    """The short pair has no distance 4, so its norm at distance 0 does not affect the ratio there."""
    model = build("rnn-last").double()
    alone = measure_gradients(model, [batch(LONG)]).curves["hidden"]
    both = measure_gradients(model, [batch(LONG, SHORT)]).curves["hidden"]
    assert both.ratio[4] == pytest.approx(alone.ratio[4])
    assert both.norm[0] != pytest.approx(alone.norm[0])


def test_curves_end_at_the_maximum_distance() -> None:
    curves = measure_gradients(build("lstm-last"), [batch(LONG, SHORT)], max_distance=2).curves
    assert {len(curve.norm) for curve in curves.values()} == {3}


def test_all_layers_of_a_stack_are_included() -> None:
    whole = measure_gradients(build("bilstm-deep").double(), [batch(LONG)]).curves["hidden"]
    shallow = measure_gradients(build("bilstm-deep", decoder_layers=1).double(), [batch(LONG)]).curves["hidden"]
    assert whole.norm[1] > shallow.norm[1] > 0


def test_an_eigenvalue_prediction_needs_a_single_layer() -> None:
    flow = measure_gradients(build("rnn-last", layers=2), [batch(LONG)])
    assert flow.prediction is None and flow.spectral_radius is None


@torch.no_grad()
def test_the_model_is_not_changed() -> None:
    model = build("lstm-bilinear", dropout=0.5).train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    told: list[int] = []
    first = measure_gradients(model, [batch(LONG)], on_progress=told.append)
    assert first == measure_gradients(model, [batch(LONG)])  # no dropout
    assert told == [1] * 5
    assert model.training and model.decoder.layers[0].cell.kernel == "fused"  # type: ignore[union-attr, index]
    assert all(weight.grad is None for weight in model.parameters())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_model_without_embeddings_or_gradients_is_an_error() -> None:
    class Blind(nn.Module):
        output = nn.Linear(2, 20)

        def hidden(self, batch: Batch) -> torch.Tensor:
            return torch.zeros(1, 5, 2)

    with pytest.raises(SeqloomError, match="Blind cannot be inspected: it does not have an embedding"):
        measure_gradients(Blind(), [batch(LONG)])
    with pytest.raises(SeqloomError, match="Linear cannot be inspected: it is not trained by gradient"):
        measure_gradients(nn.Linear(1, 1), [batch(LONG)])


class Store(TokenStore):
    """In-memory store with sources of one token and targets of the given lengths."""

    def __init__(self, lengths: list[int]) -> None:
        self._count = len(lengths)
        sides = {"source": [1] * len(lengths), "target": lengths}
        self.offsets = {side: np.cumsum([0, *rows]) for side, rows in sides.items()}
        self.ids = {side: np.full(sum(rows), 5) for side, rows in sides.items()}


def test_the_longest_targets_come_first() -> None:
    first, second = longest_batches(Store([n % 40 + 1 for n in range(200)]), 2)
    assert first.target_lengths is not None and second.target_lengths is not None
    assert first.target_lengths.tolist() == [41] * 5 + [40] * 5 + [39] * 5 + [38]
    assert second.target_lengths.tolist() == [38] * 4 + [37] * 5 + [36] * 5 + [35] * 2
    assert [len(batch.index) for batch in longest_batches(Store([3] * 20), 5)] == [16, 4]


def flow(name: str, *, prediction: bool = False, **curves: list[float]) -> GradientFlow:
    def curve(norms: list[float]) -> Curve:
        return Curve(norms, [norm / norms[0] for norm in norms], [3] * len(norms))

    made: Any = {kind: curve(norms) for kind, norms in curves.items()}
    return GradientFlow(name, 16, made, curve([1.0, 0.8]) if prediction else None, 0.8 if prediction else None)


RNN = flow("runs/$rnn_1", prediction=True, hidden=[1.0, 0.5], target=[2.0, 1.0], source=[0.5, 0.1])
LSTM = flow("lstm", hidden=[1.0, 0.7], cell=[1.0, 0.9], target=[1.0, 0.6], source=[0.3, 0.0])
TRANSFORMER = flow("transformer", target=[1.0, 0.6], source=[0.3, 0.2])


def test_json_is_complete() -> None:
    value = json.loads(json.dumps(RNN.to_dict()))
    assert value["curves"]["hidden"] == {
        "norm": [1.0, 0.5],
        "ratio": [1.0, 0.5],
        "count": [3, 3],
        "overflows": [],
    }
    assert value["prediction"]["norm"] == [1.0, 0.8]
    assert (value["name"], value["sentences"], value["spectral_radius"]) == ("runs/$rnn_1", 16, 0.8)


def drawn(flows: list[GradientFlow], tmp_path: Path) -> str:
    gradient_picture(flows, tmp_path / "a.svg", title="a $title")
    return (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_the_figure_of_several_models_has_three_panels(tmp_path: Path) -> None:
    drawing = drawn([RNN, LSTM, TRANSFORMER], tmp_path)
    assert drawing.count('id="axes_') == 3
    for text in ("runs/$rnn_1", "powers of W alone, |λ| ≤ 0.80", "cell c", "by source input", "a $title"):
        assert f"<!-- {text}" in drawing or text in drawing


def test_models_without_decoder_states_have_no_panel_for_them(tmp_path: Path) -> None:
    drawing = drawn([TRANSFORMER], tmp_path)
    assert drawing.count('id="axes_') == 2
    assert "by decoder state" not in drawing


def test_no_curves_or_an_unknown_suffix_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="no gradients to draw"):
        gradient_picture([], tmp_path / "a.png")
    with pytest.raises(SeqloomError, match=r"cannot be written as \.gif"):
        gradient_picture([RNN], tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_matplotlib_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SeqloomError, match="need matplotlib"):
        gradient_picture([RNN], tmp_path / "a.png")


def _exploding(factor: float, steps: int) -> GradientFlow:
    """Return the gradients of a linear RNN whose recurrent matrix is the identity times a factor."""
    model = build("rnn-last", activation="identity")
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.01)
        layer = cast(Any, model).decoder.layers[0]
        layer.weights().hidden.copy_(factor * torch.eye(8))
    return measure_gradients(model, [batch(([5, 6], [7] * steps))])


def test_gradients_that_overflow_a_float_are_measured() -> None:
    flow = _exploding(100.0, 30)
    hidden = flow.curves["hidden"]
    assert flow.overflows == 0
    assert hidden.norm[25] / hidden.norm[5] > 1e38
    assert all(
        math.isfinite(number) for curve in flow.curves.values() for number in (*curve.norm, *curve.ratio)
    )


def test_gradients_that_overflow_a_double_are_counted() -> None:
    flow = _exploding(1e12, 40)
    hidden = flow.curves["hidden"]
    assert flow.overflows > 0 and sum(hidden.overflows) > 0
    assert not any(
        math.isnan(number) for curve in flow.curves.values() for number in (*curve.norm, *curve.ratio)
    )
    assert [count + lost for count, lost in zip(hidden.count, hidden.overflows, strict=True)] == list(
        range(41, 0, -1)
    )
    json.dumps(flow.to_dict(), allow_nan=False)
