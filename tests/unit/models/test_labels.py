"""Taggers and classifiers: equations against torch.nn and NumPy, words of every tokenizer, forced ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.decode.config import SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.models.labels import BiLstmTaggerSettings
from seqloom.nn.pooling import SequencePooling, WordPooling
from seqloom.registry import architecture
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, Batch, Vocabularies

VOCABULARIES = Vocabularies(23, 9, False)
PAIRS = [("the old man can fish", "D A N X V"), ("a Käse is here", "D N V R"), ("can the man ?", "X D N P")]
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}


def build(name: str, vocabularies: Vocabularies = VOCABULARIES, **fields: Any) -> Any:
    torch.manual_seed(1)
    entry = architecture(name)
    values = {"size": "tiny", "width": 16, **fields, "name": name}
    return entry.build(entry.settings.model_validate(values), vocabularies).double().eval()


def batch(*sources: list[int], labels: int | None = None) -> Batch:
    targets = [[4] * (len(source) if labels is None else labels) for source in sources]
    return collate_ids(sources, targets, range(len(sources)))


def reference_states(model: Any, ids: list[int]) -> torch.Tensor:
    """Return the states of a bidirectional nn.LSTM with the same weights, (S, D)."""
    lstm = nn.LSTM(16, 8, bidirectional=True, batch_first=True).double()
    parts = zip(("", "_reverse"), (model.encoder.forwards[0], model.encoder.backwards[0]), strict=True)
    for suffix, layer in parts:
        inner = dict(layer.named_parameters())
        assert len(inner) == 4
        for name, weight in inner.items():
            kind = name.rpartition(".")[2].removesuffix("_l0")
            getattr(lstm, f"{kind}_l0{suffix}").data.copy_(weight.data)
    states: torch.Tensor = lstm(model.source_embedding(torch.tensor([[*ids, EOS]])))[0][0]
    return states


def test_a_bilstm_tagger_is_an_lstm_and_a_softmax_per_word() -> None:
    model, ids = build("bilstm-tagger", layers=1), [5, 9, 4]
    states = reference_states(model, ids)
    weight, bias = model.output.weight[4:, :-1], model.output.bias[4:]
    expected = (states[:3] @ weight.T + bias - model.output.weight[4:, -1]).softmax(-1)
    found = model(batch(ids, [7]))[0, :3, 4:].softmax(-1)
    assert_close(found, expected, **EXACT)


@pytest.mark.parametrize("pooling", ["last", "mean", "attention"])
def test_the_vector_of_a_sequence_is_a_pooling_of_the_states(pooling: str) -> None:
    model, ids = build("bilstm-classifier", layers=1, pooling=pooling), [5, 9, 4, 4]
    states = reference_states(model, ids).detach().numpy()
    if pooling == "last":
        expected = states[-1]
    elif pooling == "mean":
        expected = states.mean(0)
    else:
        first, _, second = model.pooling.score
        scores = np.tanh(states @ first.weight.detach().numpy().T + first.bias.detach().numpy())
        weights = np.exp(scores @ second.weight.detach().numpy()[0])
        expected = weights / weights.sum() @ states
    found = model.hidden(batch([7], ids, labels=1))[1, 0, :-1]
    assert_close(found, torch.from_numpy(expected), **EXACT)


@pytest.mark.parametrize("name", ["bilstm-tagger", "transformer-classifier"])
def test_the_end_is_certain_after_the_last_label_and_impossible_before(name: str) -> None:
    model = build(name).float()
    given = batch([5, 6, 7], [8, 4, 4, 4], labels=None if "tagger" in name else 1)
    assert given.target_out is not None
    probabilities = model(given).softmax(-1)
    assert torch.equal(
        probabilities[..., EOS][given.target_mask], (given.target_out == EOS)[given.target_mask].float()
    )
    assert not probabilities[..., [PAD, BOS]].any()


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_there_is_one_tag_per_word_of_the_text(kind: str) -> None:
    text = TextConfig.model_validate(
        {"tokenizer": kind, "target_tokenizer": "word", "joint": False, "vocab_size": 300}
    )
    tokenizers = TokenizerPair.train(text, lambda: iter(PAIRS * 5))
    model = build("bilstm-tagger", tokenizers.vocabularies)
    translator = TorchTranslator(model, tokenizers, SearchConfig.checked({"beam": 2}, "search"))
    lines = ["the man", "zebras 鱼 — can’t fish", "x", "the▁old man  ", " ¿qué? 🙂 !"]
    found = [len(best[0].tokens) for best in translator.translate(lines)]
    assert found == [len(line.split()) for line in lines]


def test_the_vector_of_a_word_is_the_mean_of_its_tokens() -> None:
    pooling = WordPooling(None, 23)
    pooling.is_start = torch.tensor([id in (5, 6) for id in range(23)])
    weights, count = pooling(torch.zeros(2, 5, 3), batch([5, 9, 9, 6], [9]))
    assert count.tolist() == [2, 1]
    assert_close(weights[0], torch.tensor([[1 / 3, 1 / 3, 1 / 3, 0, 0], [0, 0, 0, 1, 0]]))
    assert weights[1, 0].tolist() == [1, 0, 0, 0, 0]


def test_the_alignment_of_a_classifier_is_its_attention() -> None:
    model = build("transformer-classifier")
    memory, state = model.start(batch([5, 6, 7], labels=1))
    step = model.step(memory, state, torch.tensor([BOS]))
    weights, _ = model.pooling(model.encode(batch([5, 6, 7])), batch([5, 6, 7]))
    assert_close(step.attention[0, 0, 0], weights[0, 0], **EXACT)
    assert 0 < weights.max() < 1


def test_the_pooling_must_be_known() -> None:
    with pytest.raises(SeqloomError, match="pooling"):
        SequencePooling("first", 8)  # type: ignore[arg-type]


def test_tied_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="no target embedding"):
        BiLstmTaggerSettings.model_validate({"size": "tiny", "tie": "target"})
