from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import SearchConfig
from seqloom.decode.options import BeamOptions
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import PositionName
from seqloom.registry import architecture, architectures
from seqloom.run.config import compose
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.training.config import TrainConfig
from seqloom.training.loss import LossModule
from seqloom.training.optimizer import Updater
from seqloom.types import EOS, Batch, Vocabularies

SYMBOLS = 8
VOCABULARIES = Vocabularies(3 + SYMBOLS, 3 + SYMBOLS, True)
POSITIONS = get_args(PositionName)
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
SOURCES = [[4, 5, 6], [6, 5, 4], [7], [7, 8], [9, 9, 9, 9], [10, 4]]
TARGETS = [[8, 9], [9, 8, 8], [10, 7, 6, 5], [10, 7, 4], [5], [6, 6, 6]]


def _build(preset: str = "transformer", **fields: Any) -> Transformer:
    torch.manual_seed(1)
    sizes = {"width": 32, "layers": 1, "heads": 2, "ffn": 32, "dropout": 0.0}
    values = {**sizes, **architecture(preset).overrides, "name": preset, **fields}
    return Transformer(TransformerSettings.model_validate(values), VOCABULARIES)


def _random_pairs(count: int, random: torch.Generator) -> Batch:
    """Return independent random sources of three symbols and targets of five."""
    sides = [torch.randint(3, 3 + SYMBOLS, (count, n), generator=random).tolist() for n in (3, 5)]
    return collate_ids(sides[0], sides[1], range(count))


def _mean_loss(model: Transformer, batch: Batch) -> float:
    return LossModule(model, 0.0, "float32")(batch).nll.item() / batch.target_tokens


def _update(model: Transformer, updater: Updater, batch: Batch, rate: float) -> float:
    """Run a training step and return the mean loss before the update."""
    loss = LossModule(model, 0.0, "float32")(batch)
    loss.total.backward()
    updater.update(batch.target_tokens, rate)
    return loss.nll.item() / batch.target_tokens


# Masks


@pytest.fixture
def mask_off(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the decoder attend to future tokens until the patch is undone."""
    forward = SelfAttention.forward

    def all_seen(
        layer: SelfAttention, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, **more: Any
    ) -> Tensor:
        return forward(layer, x, mask=mask, **more)

    monkeypatch.setattr(SelfAttention, "forward", all_seen)
    return monkeypatch


@pytest.mark.parametrize("positions", POSITIONS)
def test_no_gradient_from_an_output_to_a_later_token(positions: str) -> None:
    model = _build(positions=positions, layers=2).double()
    batch = collate_ids([[4, 5, 6]] * 2, [[5, 6, 7, 8, 9]] * 2, range(2), [[0, 1, 1]] * 2)
    embedded: list[Tensor] = []
    model.target_positions.register_forward_hook(lambda module, inputs, out: embedded.append(out))
    logits = model(batch)
    for t in range(6):
        (gradient,) = torch.autograd.grad(logits[:, t].square().sum(), embedded[0], retain_graph=True)
        reached = gradient.abs().amax(dim=(0, 2))
        assert (reached[: t + 1] > 1e-6).all()
        assert (reached[t + 1 :] == 0).all()


@pytest.mark.parametrize("positions", ["relative", "sinusoidal"])
def test_without_the_mask_the_loss_falls_below_the_entropy(
    positions: str, mask_off: pytest.MonkeyPatch
) -> None:
    # Five of six tokens are drawn from eight symbols; only the end of sentence can be predicted.
    possible = 5 / 6 * math.log(SYMBOLS)
    random = torch.Generator().manual_seed(1)
    model = _build(positions=positions)
    updater = Updater(model, TrainConfig())
    for step in range(1, 141):
        loss = _update(model, updater, _random_pairs(32, random), 5e-3 * min(1.0, step / 20))
    assert loss < 0.2 * possible
    mask_off.undo()
    # It learned to copy the target, which is not available in decoding.
    assert _mean_loss(model, _random_pairs(200, random)) > 2 * possible


def test_with_the_mask_random_targets_cannot_be_learned() -> None:
    possible = 5 / 6 * math.log(SYMBOLS)
    random = torch.Generator().manual_seed(1)
    model = _build(positions="relative")
    updater = Updater(model, TrainConfig())
    for step in range(1, 141):
        _update(model, updater, _random_pairs(32, random), 5e-3 * min(1.0, step / 20))
    assert possible - 0.02 < _mean_loss(model, _random_pairs(200, random)) < possible + 0.1


def _decoded_after_overfitting(model: Transformer) -> list[Any]:
    """Train on six pairs until their loss is low, and return the outputs of a beam search."""
    batch, updater = collate_ids(SOURCES, TARGETS, range(6)), Updater(model, TrainConfig())
    losses = (_update(model, updater, batch, 5e-3 * min(1.0, step / 20)) for step in range(1, 301))
    assert any(loss < 0.02 for loss in losses)
    sources = collate_ids(SOURCES, None, range(6))
    found = beam_search(model.eval(), sources, BeamOptions(3, stop="ahead"), max_lengths=[9] * 6)
    return [hypotheses[0].tokens for hypotheses in found]


def test_with_the_mask_learned_targets_are_decoded() -> None:
    assert _decoded_after_overfitting(_build(positions="relative")) == TARGETS


def test_without_the_mask_decoding_fails_in_spite_of_a_low_loss(mask_off: pytest.MonkeyPatch) -> None:
    found = _decoded_after_overfitting(_build(positions="relative"))
    assert sum(one == other for one, other in zip(found, TARGETS, strict=True)) <= 2


# Positions


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_permuted_source_gives_a_permuted_output_only_without_positions(positions: str) -> None:
    model = _build(positions=positions, layers=2).double().eval()
    batch = collate_ids([[4, 5, 6, 7, 8], [9, 10]], None, range(2), [[0, 1, 1, 3, 4], [0, 1]])
    # Six tokens and three, including the end of sentence; padding is not moved.
    orders = [torch.tensor([3, 0, 5, 1, 4, 2]), torch.tensor([2, 0, 1, 3, 4, 5])]
    rows = torch.arange(2).unsqueeze(1), torch.stack(orders)
    # The tree is that of the positions, not of the permuted tokens.
    permuted = Batch(batch.source[rows], batch.source_lengths, batch.index, source_heads=batch.source_heads)
    real = batch.source_mask
    output, expected = model.encode(permuted)[real], model.encode(batch)[rows][real]
    if positions == "none":
        assert_close(output, expected, **EXACT)
    else:
        assert (output - expected).abs().amax(-1).min() > 1e-3  # at every position


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_decoder_gets_the_order_from_positions_or_from_its_mask(positions: str) -> None:
    model = _build(positions=positions, layers=2).double().eval()
    batch = collate_ids([[4, 5]] * 2, [[5, 6, 7], [6, 5, 7]], range(2), [[0, 1]] * 2)
    one, other = model(batch)[:, 3]
    assert not torch.allclose(one, other, rtol=0.0, atol=1e-6)


def test_the_output_depends_on_the_tree() -> None:
    trees = [[2, 0, 2], [0, 1, 2], [0, -1, 1]]
    for positions in ("syntax", "relative"):
        model = _build(positions=positions).double().eval()
        one, *others = model(collate_ids([[4, 5, 6]] * 3, [[7, 8]] * 3, range(3), trees))
        for other in others:
            assert torch.allclose(one, other, rtol=0.0, atol=1e-9) == (positions == "relative")


def test_a_model_that_reads_trees_needs_them() -> None:
    model = _build("transformer-syntax")
    with pytest.raises(SeqloomError, match="needs a dependency tree for every source") as error:
        model(collate_ids([[4, 5, 6]], [[7]], range(1)))
    assert "--heads-column" in error.value.hint and "CoNLL-U" in error.value.hint


@pytest.mark.parametrize("name", ["lm", "prefix-lm", "mlm"])
def test_models_without_trees_refuse_syntax_positions(name: str) -> None:
    with pytest.raises(SeqloomError, match=f"model.positions=syntax is not supported by {name}"):
        compose(None, {"model.name": name, "model.positions": "syntax"})


def test_trees_need_full_attention_and_pairs_of_sine_and_cosine() -> None:
    with pytest.raises(SeqloomError, match=r"model.encoder.attention=window supports .*, not syntax"):
        compose(None, {"model.positions": "syntax", "model.encoder.attention": "window"})
    with pytest.raises(SeqloomError, match=r"model\.width=9 must be even"):
        compose(None, {"model.positions": "syntax", "model.width": 9, "model.heads": 3})


def test_too_few_learned_positions_are_an_error_on_both_sides() -> None:
    model = _build(positions="learned", max_length=4)
    model(collate_ids([[5, 6, 7]], [[5, 6, 7]], range(1)))  # with the end of sentence, four
    for source, target in (([5, 6, 7, 8], [5]), ([5], [5, 6, 7, 8])):
        with pytest.raises(SeqloomError, match="4 learned positions") as error:
            model(collate_ids([source], [target], range(1)))
        assert error.value.hint is not None and "model.max_length" in error.value.hint


def test_too_few_learned_positions_are_an_error_in_decoding() -> None:
    model = _build(positions="learned", max_length=4).eval()
    memory, state = model.start(collate_ids([[5]], None, range(1)))
    last = torch.tensor([5])
    for _ in range(4):
        state = model.step(memory, state, last).state
    with pytest.raises(SeqloomError, match="4 learned positions"):
        model.step(memory, state, last)


@pytest.mark.parametrize(("name", "room"), [("transformer", 6), ("lm", 6 - 4)])
def test_a_search_ends_at_the_last_position(name: str, room: int) -> None:
    config = TextConfig(tokenizer="char", byte_fallback=False, tags=())
    tokenizers = TokenizerPair.train(config, lambda: [("abc", "cba")] * 20)
    entry, size = architecture(name), tokenizers.target.size
    values = {"name": name, "size": "tiny", "positions": "learned", "max_length": 6}
    torch.manual_seed(0)
    model = entry.build(entry.settings.model_validate(values), Vocabularies(size, size, True)).eval()
    with torch.no_grad():
        model.output.bias[EOS] = -100.0  # EOS is never generated
    ((best,),) = TorchTranslator(model, tokenizers, SearchConfig(beam=2)).translate(["abc"])
    assert (len(best.tokens), best.finished) == (room, False)


def test_both_sides_have_separate_learned_positions() -> None:
    model = _build(positions="learned", max_length=4)
    names = [name for name, _ in model.named_parameters() if "positions" in name]
    assert names == ["source_positions.table.weight", "target_positions.table.weight"]


def test_the_decoder_has_causal_and_the_encoder_bidirectional_distances() -> None:
    model = _build(positions="t5", layers=2)
    parts: list[Any] = [model.encoder, model.decoder]
    sides = [[block.attention.positions.causal for block in part] for part in parts]
    assert sides == [[False, False], [True, True]]


# Settings


@pytest.mark.parametrize(
    "fields, sentence",
    [
        ({"width": 30, "heads": 4}, "model.heads=4 does not divide model.width=30"),
        ({"width": 30, "heads": 4, "qk_width": 8}, "model.heads=4 does not divide model.width=30"),
        ({"width": 33, "heads": 3}, "model.width=33 must be even"),
        ({"width": 12, "heads": 4, "positions": "rotary"}, "even query width, got 3"),
        ({"width": 12, "heads": 3, "qk_width": 5, "positions": "rotary"}, "even query width, got 5"),
        ({"positions": "absolute"}, "model.positions"),
        ({"norm_place": "middle"}, "model.norm_place"),
        ({"activation": "tanh"}, "model.activation"),
        ({"relative_distance": 0}, "model.relative_distance"),
        ({"max_length": 0}, "model.max_length"),
    ],
    ids=str,
)
def test_incompatible_options_are_an_error(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SeqloomError) as error:
        compose(
            values={"model.name": "transformer", **{f"model.{key}": value for key, value in fields.items()}}
        )
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"width": 30, "heads": 4, "qk_width": 8, "v_width": 5},
        {"width": 33, "heads": 3, "positions": "alibi"},
        {"width": 12, "heads": 4, "qk_width": 2, "positions": "rotary"},
    ],
    ids=str,
)
def test_compatible_options_are_accepted(fields: dict[str, Any]) -> None:
    model = _build(**fields).eval()
    assert model(collate_ids([[5, 6]], [[7]], range(1))).isfinite().all()


def test_head_widths_come_from_the_settings() -> None:
    block: Any = _build(heads=3, qk_width=4, v_width=7, layers=1).decoder[0]
    assert block.attention.query_key_value.weight.shape == (3 * (4 + 4 + 7), 32)
    assert block.attention.output.weight.shape == (32, 3 * 7)
    assert block.cross.query.weight.shape == (3 * 4, 32)
    assert block.cross.key_value.weight.shape == (3 * (4 + 7), 32)


@pytest.mark.parametrize(
    "preset, chosen",
    [
        ("transformer", {"positions": "sinusoidal", "norm": "layer", "norm_place": "before", "residual": True}),
        ("transformer-postnorm", {"norm_place": "after"}),
        ("transformer-relative", {"positions": "relative"}),
        ("transformer-rotary", {"positions": "rotary"}),
        ("transformer-alibi", {"positions": "alibi"}),
        ("transformer-fast", {"layers": 6, "decoder_layers": 1, "width": 256, "positions": "sinusoidal"}),
        ("transformer-deep", {"layers": 24, "decoder_layers": 24, "norm": "rms", "activation": "swiglu"}),
    ],
)
def test_presets_set_their_options(preset: str, chosen: dict[str, Any]) -> None:
    settings = compose(values={"model.name": preset}).model.model_dump()
    assert {key: settings[key] for key in chosen} == chosen
    assert architectures()[preset].build is Transformer


# Blocks


def test_steps_equal_forward_without_residuals() -> None:
    model = _build(residual=False, layers=2).double().eval()
    batch = collate_ids([[4, 5, 6]], [[5, 6, 7]], range(1))
    assert batch.target_in is not None
    memory, state = model.start(batch)
    for t, expected in enumerate(model(batch)[0].log_softmax(-1)):
        step = model.step(memory, state, batch.target_in[:, t])
        state = step.state
        assert_close(step.log_probs[0], expected, **EXACT)


def test_24_layers_train_without_divergence() -> None:
    model = _build("transformer-deep", width=16, ffn=32)
    config = TrainConfig()
    assert len(model.encoder) == len(model.decoder) == 24
    updater, batch = Updater(model, config), collate_ids(SOURCES, TARGETS, range(6))
    losses = [_update(model, updater, batch, config.learning_rate) for _ in range(30)]
    assert all(loss < 1.2 * losses[0] for loss in losses)
    assert losses[-1] < 0.6 * losses[0]
