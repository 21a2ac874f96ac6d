"""Every shape that CTranslate2 supports gives the same outputs there; every other one is an error."""

from __future__ import annotations

import random
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.decode.config import SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2.convert import check_can_hold, library, position_rows, token_names, write_model
from seqloom.export.ctranslate2.translator import CTranslate2Translator
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.run.config import compose
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, Vocabularies

pytest.importorskip("ctranslate2")

DRAW = random.Random(0)
LINES = [" ".join(DRAW.choices("abcdefghijkl", k=DRAW.randint(1, 7))) for _ in range(24)]
SEARCH = SearchConfig(max_length_factor=1.0, max_length_extra=5)


def tokenizers(joint: bool) -> TokenizerPair:
    text = TextConfig(tokenizer="word", joint=joint, byte_fallback=False)
    return TokenizerPair.train(text, lambda: ((line, line.upper()) for line in LINES))


JOINT, APART = tokenizers(True), tokenizers(False)


def build(pair: TokenizerPair, **options: Any) -> tuple[Transformer, TransformerSettings]:
    """Return a model with random weights that never generates PAD and BOS, like a trained one."""
    sizes = {"width": 16, "layers": 2, "heads": 2, "ffn": 24}
    settings = TransformerSettings.checked({**sizes, **options}, "model")
    torch.manual_seed(len(str(options)))
    model = Transformer(settings, Vocabularies(pair.source.size, pair.target.size, pair.joint)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
        model.output.bias[[PAD, BOS]] = -30
    return model, settings


def both(folder: Path, pair: TokenizerPair, **options: Any) -> tuple[TorchTranslator, CTranslate2Translator]:
    """Return our translator of a random model, whose outputs have many lengths, and that of CTranslate2."""
    model, settings = build(pair, **options)
    ours = TorchTranslator(model, pair, SEARCH)
    found = {}
    for bias in (-1.0, 0.0, 1.0, 2.0, 3.0):
        model.output.bias.data[EOS] = bias
        found[bias] = len({len(one.tokens) for best in ours.translate(LINES[:8], nbest=5) for one in best})
    model.output.bias.data[EOS] = max(found, key=lambda bias: found[bias])
    write_model(folder, model, settings, pair)
    rows = position_rows(settings)
    return ours, CTranslate2Translator(folder, pair, SEARCH, positions=rows, threads=2)


SHAPES: dict[str, dict[str, Any]] = {
    "default": {},
    "after": {"norm_place": "after"},
    "rms": {"norm": "rms"},
    "rms-after": {"norm": "rms", "norm_place": "after"},
    "deep-shallow": {"layers": 6, "decoder_layers": 1},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
    "swiglu": {"activation": "swiglu", "norm_place": "after"},
    "learned": {"positions": "learned", "max_length": 14},
    "no-positions": {"positions": "none"},
    "relative": {"positions": "relative", "relative_distance": 2},
    "relative-unscaled": {"positions": "relative", "scaled": False, "qk_width": 5, "v_width": 5},
    "rotary": {"positions": "rotary"},
    "rotary-after": {"positions": "rotary", "norm_place": "after", "heads": 3, "qk_width": 6, "v_width": 6},
    "unscaled": {"scaled": False},
    "own-heads": {"heads": 3, "qk_width": 4, "v_width": 4},
    "few-layers": {"layers": 1, "decoder_layers": 3},
    "tie-none": {"tie": "none"},
    "tie-target": {"tie": "target"},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_and_scores_are_the_same(shape: str, tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, JOINT, **SHAPES[shape])
    assert_same(ours, theirs)


@pytest.mark.parametrize("tie", ["auto", "target", "none"])
def test_two_vocabularies(tie: str, tmp_path: Path) -> None:
    assert_same(*both(tmp_path, APART, tie=tie))


def assert_same(ours: TorchTranslator, theirs: CTranslate2Translator) -> None:
    for beam in (1, 3):
        expected = ours.translate(LINES, beam=beam, nbest=beam)
        answers = theirs.translate(LINES, beam=beam, nbest=beam)
        assert [[one.text for one in best] for best in answers] == [
            [one.text for one in best] for best in expected
        ]
        for mine, other in zip(chain(*expected), chain(*answers), strict=True):
            assert (other.tokens, other.source_tokens) == (mine.tokens, mine.source_tokens)
            assert other.finished == mine.finished
            assert other.score == pytest.approx(mine.score, abs=1e-5)
            assert other.log_prob == pytest.approx(mine.log_prob, abs=1e-4)
            assert other.token_log_probs == pytest.approx(mine.token_log_probs, abs=1e-4)


def test_a_wrong_weight_would_be_noticed(tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, JOINT)
    assert isinstance(ours.model, Transformer)
    ours.model.output.bias.data[EOS] += 0.01
    with pytest.raises(AssertionError):
        assert_same(ours, theirs)


@pytest.mark.parametrize("quantization", ["int8", "int16", "float16"])
def test_quantising_keeps_the_model_and_nearly_all_outputs(quantization: str, tmp_path: Path) -> None:
    model, settings = build(JOINT, width=32)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    write_model(tmp_path, model, settings, JOINT, quantization)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]), name
    theirs = CTranslate2Translator(tmp_path, JOINT, SEARCH, positions=None, threads=1)
    expected = TorchTranslator(model, JOINT, SEARCH).translate(LINES, beam=1)
    pairs = [(line, best[0].text) for line, best in zip(LINES, expected, strict=True) if best[0].finished]
    for (_, text), score in zip(pairs, theirs.score(pairs), strict=True):
        wanted = next(best[0] for best in expected if best[0].text == text)
        assert score.tokens == wanted.tokens
        assert len(score.log_probs) == len(score.tokens) + 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": "lstm-additive"}, "model.name=lstm-additive is not an encoder-decoder Transformer"),
        ({"name": "lm"}, "model.name=lm is not an encoder-decoder Transformer"),
        ({"name": "mlm"}, "model.name=mlm is not an encoder-decoder Transformer"),
        ({"name": "transformer-linformer"}, "model.encoder.attention=linformer (supported: full)"),
        ({"name": "transformer-bigbird"}, "model.encoder.attention=bigbird (supported: full)"),
        ({"encoder": {"attention": "window"}}, "model.encoder.attention=window (supported: full)"),
        ({"name": "transformer-alibi"}, "model.positions=alibi (supported: none, sinusoidal, learned, "),
        ({"positions": "t5"}, "model.positions=t5"),
        ({"positions": "syntax"}, "model.positions=syntax"),
        ({"qk_width": 3, "v_width": 5}, "model.qk_width=3 and model.v_width=5 (supported: equal"),
        ({"norm_place": "none"}, "model.norm_place=none (supported: before, after)"),
        ({"tag_positions": False}, "model.tag_positions=false (supported: true)"),
        ({"residual": False}, "model.residual=false (supported: true)"),
        ({"attention_bias": False}, "model.attention_bias=false (supported: true)"),
        ({"attention_weights": "raw"}, "model.attention_weights=raw (supported: softmax)"),
        ({"activation": "none"}, "model.activation=none (supported: relu, gelu, silu, swiglu)"),
    ],
)
def test_unsupported_models_are_refused(options: dict[str, Any], reason: str) -> None:
    settings = compose(values={f"model.{name}": value for name, value in options.items()}).model
    with pytest.raises(SeqloomError) as error:
        check_can_hold(settings)
    assert error.value.message.startswith(f"CTranslate2 does not support the model {settings.name}: ")
    assert reason in error.value.message
    assert error.value.hint == "translate with --engine torch"


def test_an_unknown_quantization(tmp_path: Path) -> None:
    model, settings = build(JOINT)
    with pytest.raises(SeqloomError, match="There is no quantization called 'int9'") as error:
        write_model(tmp_path, model, settings, JOINT, "int9")
    assert error.value.hint == "did you mean 'int8'?"
    assert list(tmp_path.iterdir()) == []


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(SeqloomError, match="needs the package ctranslate2, which is not installed") as error:
        library()
    assert "seqloom[fast]" in error.value.hint


def test_every_id_has_a_unique_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = token_names(JOINT.source)
    assert names == list(JOINT.source.names) != JOINT.source.pieces(range(JOINT.source.size))
    monkeypatch.setattr(JOINT.source, "names", ("x",) * JOINT.source.size)
    assert token_names(JOINT.source)[:3] == ["x", "x#1", "x#2"]


def test_the_maximum_sequence_length() -> None:
    def rows(**options: Any) -> int | None:
        return position_rows(TransformerSettings.checked(options, "model"))

    assert (rows(), rows(positions="none")) == (2048, 2048)
    assert rows(positions="learned", max_length=12) == 12
    assert (rows(positions="relative"), rows(positions="rotary")) == (None, None)
