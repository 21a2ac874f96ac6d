"""Cost of models: predicted and counted FLOPs agree for every registered architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from seqloom import SeqloomError
from seqloom.inspect import cost_measure
from seqloom.inspect.cost import CostPart, CostPrediction, example_batch, predict
from seqloom.inspect.cost_layers import Layer
from seqloom.inspect.cost_measure import count_flops, kept_bytes, measure
from seqloom.inspect.cost_picture import cost_by_length
from seqloom.nn.cells import RecurrentLayer
from seqloom.registry import architecture, architectures
from seqloom.types import Vocabularies

SMALL = {"size": "tiny", "width": 12, "heads": 3, "ffn": 20, "layers": 2, "decoder_layers": 1}
# Options that change a formula and that no registered name sets.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "window": ("transformer", {"encoder": {"attention": "window", "window": 5, "block": 4}}),
    "bigbird-blocks": ("transformer", {"encoder": {"attention": "bigbird", "block": 3}}),
    "bigbird-no-global": (
        "transformer",
        {"encoder": {"attention": "bigbird", "block": 3, "global_blocks": 0, "random_blocks": 1}},
    ),
    "linformer-per-head": (
        "transformer",
        {"encoder": {"attention": "linformer", "rank": 5, "sharing": "head"}},
    ),
    "linformer-separate": (
        "transformer",
        {"encoder": {"attention": "linformer", "rank": 5, "sharing": "model", "separate": True}},
    ),
    "lm-window": ("lm", {"decoder": {"attention": "window", "window": 5, "block": 4}}),
    "lm-bigbird": ("lm", {"decoder": {"attention": "bigbird", "block": 3}}),
    "learned": ("transformer", {"positions": "learned"}),
    "t5": ("transformer", {"positions": "t5"}),
    "swiglu": ("transformer", {"activation": "swiglu"}),
    "no-feed-forward": ("transformer", {"activation": "none"}),
    "own-widths": ("transformer", {"qk_width": 6, "v_width": 11, "positions": "relative"}),
    "feeding": ("recurrent", {"input_feeding": True, "coverage": True, "score": "dot"}),
    "predictive": ("recurrent", {"window": "predictive", "projections": "separate", "attention_width": 7}),
    "feed-forward-score": ("recurrent", {"score": "feed-forward", "attention_width": 7}),
    "simple-rnn": ("recurrent", {"cell": "rnn", "combine": "concat"}),
    "steps": ("recurrent", {"kernel": "steps"}),
    "copy": ("recurrent", {"start": "copy", "context": "last"}),
    "sigmoid": ("recurrent", {"cell": "rnn", "activation": "sigmoid"}),
    "encoder-width": ("recurrent", {"encoder_width": 18, "combine": "concat"}),
    "encoder-width-mean": ("recurrent", {"encoder_width": 18, "context": "mean"}),
    "raw-context": ("recurrent", {"attention_weights": "raw"}),
    "no-attention-bias": ("transformer", {"attention_bias": False}),
    "raw": ("transformer", {"attention_weights": "raw"}),
}
TOKENS = [name for name, entry in architectures(fitted=False).items() if not entry.task.writes_vectors]
ALL = [*TOKENS, *VARIANTS]
SHARED, SEPARATE = Vocabularies(23, 23, True), Vocabularies(29, 19, False)


def _build(name: str, vocabularies: Vocabularies = SEPARATE, **fields: Any) -> Any:
    """Return a small model with a registered name, or one of the variants."""
    base, chosen = VARIANTS.get(name, (name, {}))
    entry = architecture(base)
    small = {key: value for key, value in SMALL.items() if key in entry.settings.model_fields}
    values = {**entry.overrides, **small, **chosen, **fields, "name": base}
    torch.manual_seed(1)
    return entry.build(entry.settings.model_validate(values), vocabularies)


def _layers(name: str, length: int, **fields: Any) -> dict[str, Layer]:
    return {layer.kind: layer for layer in predict(_build(name, **fields), length).layers}


def _part(prediction: CostPrediction, name: str) -> CostPart:
    (found,) = (part for part in prediction.parts if part.name == name)
    return found


@pytest.mark.parametrize("length", [4, 17])
@pytest.mark.parametrize("name", ALL)
def test_predicted_flops_are_the_counted_ones(name: str, length: int) -> None:
    model = _build(name)
    forward, backward = count_flops(model, example_batch(length))
    predicted = predict(model, length).total.cost
    assert predicted.forward == forward > 0
    # The first state of an encoder or language model is zero and needs no gradient, which saves one product of
    # one position.
    reader = model.encoder if hasattr(model, "encoder") else model.decoder
    layers = [part for part in reader.modules() if isinstance(part, RecurrentLayer)]
    saved = sum(2 * layer.weights().hidden.numel() for layer in layers)
    assert predicted.backward - saved == backward


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_is_counted_once(name: str) -> None:
    for vocabularies in (SHARED, SEPARATE):
        model = _build(name, vocabularies)
        prediction = predict(model, 5)
        assert prediction.total.parameters == sum(weight.numel() for weight in model.parameters())
        assert prediction.unknown == []


@pytest.mark.parametrize("name", ["transformer", "window", "bigbird-blocks", "linformer-per-head", "lm"])
def test_the_count_agrees_with_attention_by_plain_products(name: str) -> None:
    """Torch's counter does not support the fused CPU kernel, but it counts plain products."""
    model, batch = _build(name), example_batch(30)
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            loss = model(batch).sum()
        with FlopCounterMode(display=False) as backward:
            loss.backward()
    counted, plain = count_flops(model, batch), (forward.get_total_flops(), backward.get_total_flops())
    # On recomputation, the fused kernel repeats all of it and plain products half.
    if name in ("window", "bigbird-blocks"):
        assert (counted[0], counted[1] > plain[1]) == (plain[0], True)
    else:
        assert counted == plain


def test_the_numbers_of_a_transformer_by_hand() -> None:
    d, f, v, n = 12, 20, 19, 8
    prediction = predict(_build("transformer", layers=1), n)
    attention, cross = _part(prediction, "encoder self-attention"), _part(prediction, "decoder cross-attention")
    assert attention.parameters == cross.parameters == 4 * (d * d + d)
    assert attention.cost.forward == 2 * n * (4 * d * d) + 2 * (2 * n * n * d) == cross.cost.forward
    feed_forward, output = _part(prediction, "decoder feed-forward"), _part(prediction, "output")
    assert feed_forward.cost.forward == 2 * n * (2 * d * f)
    assert output.cost.forward == 2 * n * d * v
    assert output.parameters == v  # the matrix is tied to the embedding
    assert _part(prediction, "embeddings").parameters == (29 + 19) * d
    for part in prediction.parts:
        assert part.cost.backward == 2 * part.cost.forward


def test_recomputed_blocks_cost_a_third_pass() -> None:
    n, block, model = 32, 4, _build("transformer", encoder={"attention": "window", "window": 4, "block": 4})
    attention = _part(predict(model, n), "encoder window")
    matrices, pairs = 2 * n * 4 * 12 * 12, 2 * 2 * n * (3 * block) * 12
    assert attention.cost.forward == 2 * (matrices + pairs)
    assert attention.cost.backward == 2 * (2 * matrices + 3 * pairs)


@pytest.mark.parametrize("name", ALL)
def test_predicted_memory_is_close_to_the_measured_one(name: str) -> None:
    """Kernels keep more than the equations need: indices, copies, and a workspace of the fused LSTM."""
    model = _build(name, width=60)
    measured = kept_bytes(model, example_batch(32))
    share = predict(model, 32).total.cost.kept / measured
    fused = any(isinstance(module, nn.LSTM) for module in model.modules()) and name != "steps"
    assert (0.0 if fused else 0.75) < share < 1.01


@pytest.mark.parametrize("name", ["transformer", "transformer-postnorm", "window", "linformer-per-head", "mlm"])
def test_predicted_memory_of_a_plain_transformer_is_exact(name: str) -> None:
    for dropout in (0.0, 0.3):
        model = _build(name, dropout=dropout)
        measured = kept_bytes(model, example_batch(40))
        assert predict(model, 40).total.cost.kept == pytest.approx(measured, rel=0.02)


def test_weights_and_tensors_without_gradient_are_not_kept() -> None:
    model = nn.Linear(1000, 2)
    model.hidden = lambda x: x @ model.weight.t()  # type: ignore[assignment, unused-ignore]
    assert kept_bytes(model, torch.ones(3, 1000)) == 3 * 2 * 4  # type: ignore[arg-type]


def test_the_table_of_layers() -> None:
    n, d = 40, 12
    assert _layers("transformer", n)["self-attention"] == Layer(
        "self-attention", n, d, "O(n² d)", n * n * d, sequential=1, path=1
    )
    assert _layers("transformer", n)["cross-attention"].operations == n * n * d
    assert _layers("transformer", n)["feed-forward"].path is None
    recurrent = _layers("lstm-last", n, direction="forward")
    assert recurrent == {"recurrent, lstm": Layer("recurrent, lstm", n, d, "O(n d²)", n * d * d, n, n)}
    window = _layers("window", n)["window"]
    assert (window.complexity, window.operations) == ("O(r n d), r = 11", 11 * n * d)
    assert (window.sequential, window.path) == (1, 8)  # 39 positions, 5 a layer
    bigbird = _layers("bigbird-blocks", n)["bigbird"]
    assert (bigbird.operations, bigbird.path) == (3 * (3 + 1 + 2) * n * d, 2)
    assert _layers("bigbird-no-global", n)["bigbird"].path == 13  # 14 blocks, one a layer
    linformer = _layers("linformer-per-head", n)["linformer"]
    assert (linformer.operations, linformer.sequential, linformer.path) == (5 * n * d, 1, 1)


def test_blocks_that_attend_to_all_are_full_attention() -> None:
    assert _layers("window", 6)["self-attention"].path == 1
    assert "bigbird" not in _layers("bigbird-blocks", 9)


def test_a_window_of_one_position_has_no_path() -> None:
    fields = {"encoder": {"attention": "window", "window": 0, "block": 4}}
    assert _layers("transformer", 9, **fields)["window"].path is None


def test_attention_with_input_feeding_is_sequential() -> None:
    assert _layers("lstm-dot", 9)["attention"].sequential == 1
    assert _layers("feeding", 9)["attention"].sequential == 9


def test_a_language_model_processes_both_sides_as_one_sequence() -> None:
    assert _layers("prefix-lm", 9)["self-attention"].positions == 18


def test_a_module_without_a_rule_is_listed() -> None:
    model = _build("transformer")
    model.extra = nn.Conv1d(2, 3, 1)
    prediction = predict(model, 5)
    assert prediction.unknown == ["Conv1d (extra)"]
    assert prediction.total.parameters == sum(weight.numel() for weight in model.parameters())


def test_the_model_is_not_changed() -> None:
    model = _build("lstm-dot")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    predict(model, 5)
    count_flops(model, example_batch(5))
    assert not any(module._forward_hooks for module in model.modules())
    assert {module.cell.kernel for module in model.modules() if hasattr(module, "cell")} == {"fused"}
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])


def test_a_measurement_has_everything_per_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_measure, "MIN_SECONDS", 0.0)
    model = _build("transformer")
    found, predicted = measure(model, 16), predict(model, 16).total.cost
    assert found.forward == predicted.forward / 16
    assert found.backward == predicted.backward / 16
    assert found.kept == pytest.approx(predicted.kept / 16, rel=0.02)
    assert found.sentences == 64
    assert 0 < found.forward_seconds < found.training_seconds
    assert found.training_rate == pytest.approx(3 * found.forward / found.training_seconds)


@pytest.mark.parametrize("length", [0, -1])
def test_a_length_below_one_is_an_error(length: int) -> None:
    with pytest.raises(SeqloomError, match=f"length must be at least 1 token, got {length}"):
        predict(_build("transformer"), length)


@pytest.mark.parametrize(
    "fields", [{"positions": "learned"}, {"encoder": {"attention": "linformer", "rank": 2}}], ids=str
)
def test_a_length_above_the_maximum_of_the_model_is_refused(fields: dict[str, Any]) -> None:
    model = _build("transformer", max_length=8, **fields)
    assert predict(model, 8).length == 8
    with pytest.raises(SeqloomError, match="8") as caught:
        predict(model, 9)
    assert "--length below 9" in caught.value.hint


def test_a_model_without_gradient_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="The cost of Identity cannot be predicted"):
        predict(nn.Identity(), 3)


def test_out_of_memory_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(model: nn.Module, batch: Any) -> int:
        raise RuntimeError("can't allocate memory\nmore")

    monkeypatch.setattr(cost_measure, "kept_bytes", too_much)
    with pytest.raises(SeqloomError, match="of 5 tokens cannot be measured: can't allocate memory") as caught:
        measure(_build("transformer"), 5)
    assert "--length below 5" in caught.value.hint


def test_the_figure_ends_at_the_maximum_length_of_the_model(tmp_path: Path) -> None:
    cost_by_length(_build("transformer", positions="learned", max_length=40)).save(tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<!-- 32 -->" in text and "<!-- 64 -->" not in text
    assert "<!-- decoder cross-attention -->" in text and "residual" not in text
    with pytest.raises(SeqloomError, match="12 learned positions"):
        cost_by_length(_build("transformer", positions="learned", max_length=12))


def test_the_cost_of_vectors_is_refused() -> None:
    model = _build("lstm-vectors", Vocabularies(29, 3, False, outputs="vectors"))
    with pytest.raises(SeqloomError, match="writes vectors"):
        predict(model, 4)
