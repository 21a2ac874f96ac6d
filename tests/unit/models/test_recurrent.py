from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.errors import SeqloomError
from seqloom.models.recurrent import Recurrent, RecurrentSettings
from seqloom.registry import architecture, architectures
from seqloom.run.config import compose
from seqloom.training.loss import cross_entropy
from seqloom.types import Batch, Vocabularies

WIDTH = 8
SHARED = Vocabularies(13, 13, True)
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}
PRESETS = [name for name, entry in architectures().items() if entry.build is Recurrent]
SOURCES, TARGETS = [[4, 5, 6, 7], [8], [9, 9, 10]], [[5, 4], [6, 7, 8, 9, 10], []]


def _settings(preset: str = "recurrent", **fields: Any) -> RecurrentSettings:
    overrides = architecture(preset).overrides
    values = {"width": WIDTH, "layers": 1, "dropout": 0.0, **overrides, "name": preset, **fields}
    return RecurrentSettings.model_validate(values)


def _build(preset: str = "recurrent", vocabularies: Vocabularies = SHARED, **fields: Any) -> Recurrent:
    torch.manual_seed(1)
    model = Recurrent(_settings(preset, **fields), vocabularies).double().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return model


@pytest.fixture
def batch() -> Batch:
    return collate_ids(SOURCES, TARGETS, range(3))


def _loss_gradients(model: Recurrent, batch: Batch) -> dict[str, Tensor]:
    assert batch.target_out is not None
    cross_entropy(model.hidden(batch), model.output, batch.target_out, 0.1).total.backward()  # type: ignore[no-untyped-call]
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("preset", PRESETS)
def test_explicit_equations_equal_the_fused_kernels(preset: str, batch: Batch) -> None:
    fused, steps = _build(preset, kernel="fused"), _build(preset, kernel="steps")
    assert_close(steps.hidden(batch), fused.hidden(batch), **EXACT)
    expected = _loss_gradients(fused, batch)
    assert expected.keys() == dict(fused.named_parameters()).keys()
    assert_close(_loss_gradients(steps, batch), expected, **EXACT)


@pytest.mark.parametrize(
    "fields, calls",
    [
        ({}, 1),
        ({"query": "previous"}, 1),
        ({"window": "predictive"}, 1),
        ({"context": "last"}, 1),
        ({"kernel": "steps"}, 6),
        ({"input_feeding": True}, 6),
        ({"coverage": True}, 6),
    ],
    ids=str,
)
def test_the_target_takes_one_call_unless_attention_feeds_back(
    fields: dict[str, Any], calls: int, batch: Batch
) -> None:
    model, widths = _build(**fields), []
    model.decoder.register_forward_hook(lambda module, inputs, outputs: widths.append(inputs[0].shape[1]))
    model.hidden(batch)
    assert batch.target_in is not None and batch.target_in.shape[1] == 6
    assert widths == [6 // calls] * calls


def _one_by_one(model: Recurrent, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
    """Return outputs and weights of one pair by the equations of the docstring, without batch and padding."""
    settings, batch = model.settings, collate_ids([source], [target], range(1))
    encoded, lasts = model.encoder(model.source_embedding(batch.source), batch.source_lengths)
    above = len(model.decoder.layers) - settings.layers
    origins = [*range(settings.layers), *[settings.layers - 1] * above][-len(model.decoder.layers) :]
    cells = [bridge(lasts[0][:, origins]).tanh() for bridge in model.bridge]
    if settings.start == "copy":
        cells = [part[:, origins] for part in lasts]
    cells += [torch.zeros_like(cells[0])] * (model.cell.parts - len(cells))
    query = cells[0][:, -1:]  # s_0, the first hidden state of the top layer
    fed = torch.zeros(1, 1, model.output.in_features, dtype=torch.float64)
    coverage = torch.zeros(1, 1, encoded.shape[1], dtype=torch.float64)

    def attend(query: Tensor, position: int) -> tuple[Tensor, Tensor]:
        if model.context is None:
            return query[..., :0], query[..., :0]
        memory = model.context.build_memory(encoded, torch.ones(1, encoded.shape[1], dtype=torch.bool))
        found: tuple[Tensor, Tensor] = model.context(query, memory, torch.tensor([[position]]), coverage)
        return found

    assert batch.target_in is not None
    outputs, weights = [], []
    for position, symbol in enumerate(batch.target_in[0].tolist()):
        y = model.target_embedding.weight[symbol].view(1, 1, -1)
        if settings.query == "previous":
            a, alpha = attend(query, position)
        if settings.input_feeding:
            y = torch.cat((y, a if settings.query == "previous" else fed), dim=-1)
        s, cells = model.decoder(y, tuple(cells))
        if settings.query == "current":
            a, alpha = attend(s, position)
        output = torch.cat((a, s), dim=-1)
        if settings.combine == "tanh" and settings.context != "last":
            assert model.combine is not None
            output = (output @ model.combine.weight.T + model.combine.bias).tanh()
        fed, query, coverage = output, s, coverage + (alpha if settings.coverage else 0)
        outputs.append(output[0, 0])
        weights.append(alpha[0, 0])
    return torch.stack(outputs), torch.stack(weights)


FEEDING = [
    {"input_feeding": feeding, "query": query, "combine": combine}
    for feeding in (False, True)
    for query in ("current", "previous")
    for combine in ("tanh", "concat")
]
OTHERS: list[dict[str, Any]] = [
    {"context": "last"},
    {"context": "mean", "input_feeding": True},
    {"context": "mean", "query": "previous", "input_feeding": True},
    {"coverage": True},
    {"coverage": True, "score": "additive", "query": "previous"},
    {"coverage": True, "score": "dot", "input_feeding": True},
    {"window": "monotonic", "window_size": 1},
    {"window": "monotonic", "window_size": 1, "query": "previous", "input_feeding": True},
    {"window": "predictive", "window_size": 1},
    {"window": "predictive", "window_size": 1, "coverage": True},
    {"projections": "separate", "attention_width": 5, "combine": "concat", "input_feeding": True},
    {"layers": 2, "decoder_layers": 3, "residual": True, "query": "previous"},
    {"layers": 3, "decoder_layers": 2, "start": "state", "context": "last"},
    {"cell": "gru", "start": "state", "layers": 2, "input_feeding": True},
    {"start": "copy", "layers": 2, "decoder_layers": 3, "query": "previous"},
    {"cell": "rnn", "activation": "sigmoid", "start": "copy", "direction": "forward", "context": "last"},
    {"encoder_width": 14, "layers": 2, "query": "previous", "input_feeding": True},
    {"encoder_width": 14, "context": "mean", "combine": "concat"},
]


@pytest.mark.parametrize("kernel", ["fused", "steps"])
@pytest.mark.parametrize("fields", [*FEEDING, *OTHERS], ids=str)
def test_the_model_equals_a_loop_over_pairs_and_positions(
    fields: dict[str, Any], kernel: str, batch: Batch
) -> None:
    model = _build(**fields, kernel=kernel)
    hidden = model.hidden(batch)
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, weights = _one_by_one(model, source, target)
        assert_close(hidden[row, : len(target) + 1], expected, **EXACT)
        alone = collate_ids([source], [target], range(1))
        assert alone.target_in is not None
        memory, state = model.start(alone)
        for position, last in enumerate(alone.target_in.unbind(dim=1)):
            step = model.step(memory, state, last)
            state = step.state
            if step.attention is None:
                assert fields["context"] == "last"
            else:
                assert_close(step.attention[0, 0, 0], weights[position], **EXACT)


def test_coverage_is_the_total_weight_of_a_position(batch: Batch) -> None:
    model = _build("lstm-additive", coverage=True)
    memory, state = model.start(batch)
    had = torch.zeros(batch.source.shape, dtype=torch.float64)
    assert batch.target_in is not None
    for last in batch.target_in.unbind(dim=1):
        assert_close(state["coverage"], had, **EXACT)
        step = model.step(memory, state, last)
        assert step.attention is not None
        had, state = had + step.attention[:, 0, 0], step.state
    assert_close(state["coverage"].sum(dim=1), torch.full((3,), 6.0, dtype=torch.float64), **EXACT)


@pytest.mark.parametrize("feeding", [False, True])
def test_the_mean_is_attention_with_uniform_weights(feeding: bool, batch: Batch) -> None:
    attention, mean = _build("lstm-bilinear", input_feeding=feeding), _build("lstm-mean", input_feeding=feeding)
    weights = attention.state_dict()
    del weights["context.score.matrix.weight"]
    mean.load_state_dict(weights)
    assert not torch.allclose(mean.hidden(batch), attention.hidden(batch))
    torch.nn.init.zeros_(attention.get_parameter("context.score.matrix.weight"))
    assert_close(mean.hidden(batch), attention.hidden(batch), **EXACT)


def test_the_decoder_starts_from_the_hidden_state_or_from_the_cell_too(batch: Batch) -> None:
    hidden, both = _build(start="hidden"), _build(start="state")
    _, lasts = both.encoder(both.source_embedding(batch.source), batch.source_lengths)
    starts = both.start(batch)[1]["cells"]
    assert_close(starts, tuple(bridge(lasts[0]).tanh() for bridge in both.bridge), **EXACT)
    assert not torch.allclose(starts[0], starts[1])
    assert hidden.start(batch)[1]["cells"][0].any()
    assert not hidden.start(batch)[1]["cells"][1].any()
    assert len(_build(start="state", cell="gru").bridge) == 1  # it has no cell


@pytest.mark.parametrize("layers, origins", [(1, (2,)), (2, (1, 2)), (3, (0, 1, 2)), (5, (0, 1, 2, 2, 2))])
def test_every_decoder_starts_from_the_top_of_the_encoder(
    layers: int, origins: tuple[int, ...], batch: Batch
) -> None:
    model = _build(layers=3, decoder_layers=layers)
    _, lasts = model.encoder(model.source_embedding(batch.source), batch.source_lengths)
    start = model.start(batch)[1]["cells"][0]
    assert start.shape == (3, layers, WIDTH)
    for layer, origin in enumerate(origins):
        assert_close(start[:, layer], model.bridge[0](lasts[0][:, origin]).tanh(), **EXACT)


def test_concatenation_makes_the_output_layer_wider_and_untied(batch: Batch) -> None:
    narrow, wide = _build(combine="tanh"), _build(combine="concat")
    assert narrow.output.weight is narrow.target_embedding.weight
    assert wide.output.weight.shape == (13, 2 * WIDTH)
    assert wide.hidden(batch).shape == (3, 6, 2 * WIDTH)
    assert wide.source_embedding is wide.target_embedding  # these two can still be tied
    projected = _build(combine="concat", projections="separate", attention_width=5)
    assert projected.output.in_features == WIDTH + 5
    bottleneck = _build(combine="concat", context="last", tie="target")  # no context to concatenate
    assert bottleneck.output.weight is bottleneck.target_embedding.weight


def test_only_models_with_a_context_return_attention(batch: Batch) -> None:
    for context, looks in (("last", False), ("mean", True), ("attention", True)):
        model = _build(context=context)
        memory, state = model.start(batch)
        assert (model.step(memory, state, torch.tensor([1, 1, 1])).attention is not None) == looks


@pytest.mark.parametrize(
    "name, fields, words",
    [
        ("recurrent", {"width": 9}, "model.width=9 must be even"),
        (
            "recurrent",
            {"cell": "gru", "activation": "relu"},
            "model.activation=relu needs model.cell=rnn, not gru",
        ),
        ("lstm-last", {"input_feeding": True}, "model.input_feeding needs model.context=mean or attention"),
        ("lstm-last", {"coverage": True}, "need model.context=attention, not last"),
        ("lstm-mean", {"window": "monotonic"}, "need model.context=attention, not mean"),
        ("recurrent", {"combine": "concat", "tie": "all"}, "model.tie=all needs an output layer as wide"),
        ("recurrent", {"combine": "concat", "tie": "target"}, "model.tie=target needs an output layer as wide"),
        ("recurrent", {"window_size": 0}, "model.window_size in the options"),
        ("recurrent", {"encoder_width": 9}, "model.encoder_width=9 must be even"),
        ("rnn-notes", {"encoder_width": 12}, "model.start=copy needs encoder and decoder states of the same"),
        ("lstm-dot", {"encoder_width": 12}, "model.score=dot needs states of the same width"),
        (
            "lstm-last",
            {"attention_weights": "raw"},
            "model.attention_weights=raw needs model.context=attention",
        ),
        ("recurrent", {"attention_weights": "raw", "coverage": True}, "model.coverage=false"),
        ("recurrent", {"score": "cosine"}, "model.score in the options"),
    ],
)
def test_incompatible_options_are_an_error(name: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SeqloomError) as caught:
        compose(values={"model.name": name, **{f"model.{key}": value for key, value in fields.items()}})
    assert words in str(caught.value)
    assert str(caught.value).endswith((".", ")."))


@pytest.mark.parametrize(
    "fields",
    [
        {"width": 9, "direction": "forward"},
        {"cell": "rnn", "activation": "identity"},
        {"context": "mean", "input_feeding": True},
        {"context": "last", "combine": "concat", "tie": "target"},
        {"combine": "concat", "tie": "none"},
    ],
    ids=str,
)
def test_compatible_options_are_accepted(fields: dict[str, Any], batch: Batch) -> None:
    config = compose(
        values={"model.name": "recurrent", **{f"model.{key}": value for key, value in fields.items()}}
    )
    assert {key: getattr(config.model, key) for key in fields} == fields
    assert _build(**fields)(batch).isfinite().all()


def test_presets_set_their_options_and_keep_those_of_the_user() -> None:
    assert set(PRESETS) == {
        "recurrent",
        *("rnn-last", "rnn-notes", "lstm-last", "gru-last", "lstm-mean"),
        *(
            "lstm-dot",
            "lstm-scaled-dot",
            "lstm-bilinear",
            "lstm-additive",
            "lstm-additive-feed",
            "gru-additive",
        ),
        "bilstm-deep",
    }
    for name in PRESETS:
        given = compose(values={"model.name": name, "model.kernel": "steps"}).model
        assert isinstance(given, RecurrentSettings)
        assert given.name == name and given.kernel == "steps"
        cell, _, rest = name.partition("-")
        assert given.cell == {"recurrent": "lstm", "bilstm": "lstm"}.get(cell, cell)
        if rest in ("last", "mean"):
            assert given.context == rest
        elif rest.removesuffix("-feed") in ("dot", "scaled-dot", "bilinear", "additive"):
            assert (given.context, given.score) == ("attention", rest.removesuffix("-feed"))
            assert given.input_feeding == rest.endswith("-feed")
    deep = _settings("bilstm-deep")
    assert (deep.direction, deep.layers, deep.decoder_layers, deep.residual) == ("both", 2, 4, True)


def test_the_copied_state_has_no_parameters_and_includes_the_cell(batch: Batch) -> None:
    model = _build(start="copy", layers=2)
    assert not [name for name in model.state_dict() if name.startswith("bridge")]
    embedded = model.source_embedding(batch.source)
    for row, length in enumerate(batch.source_lengths.tolist()):
        x, cells = embedded[row : row + 1, :length], model.start(batch)[1]["cells"]
        for layer in range(2):
            forward, (h, c) = model.encoder.forwards[layer](x)
            backward, (h_back, c_back) = model.encoder.backwards[layer](x.flip(1))
            assert_close(cells[0][row, layer], torch.cat((h, h_back), dim=-1)[0], **EXACT)
            assert_close(cells[1][row, layer], torch.cat((c, c_back), dim=-1)[0], **EXACT)
            x = torch.cat((forward, backward.flip(1)), dim=-1)


def test_raw_attention_weights_are_not_reported(batch: Batch) -> None:
    raw, normal = _build(attention_weights="raw"), _build()
    assert not torch.allclose(raw.hidden(batch), normal.hidden(batch))
    memory, state = raw.start(batch)
    assert raw.step(memory, state, torch.tensor([1, 1, 1])).attention is None
