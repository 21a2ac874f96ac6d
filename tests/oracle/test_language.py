"""The language model against torch's own Transformer layers over the same row of tokens."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.models.language import LanguageModel, LanguageModelSettings
from seqloom.nn.positions import sinusoids
from seqloom.types import BOS, EOS, Vocabularies

SOURCES, TARGETS = [[4, 5, 6], [7]], [[8, 9], [10, 11, 12, 13]]


def torch_layer(model: LanguageModel, number: int) -> nn.TransformerEncoderLayer:
    """A layer of torch with the weights of one of the model's blocks."""
    own = dict(model.decoder[number].named_parameters())
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, norm_first=True).double()
    names = {
        "self_attn.in_proj_weight": "attention.query_key_value.weight",
        "self_attn.in_proj_bias": "attention.query_key_value.bias",
        "self_attn.out_proj.weight": "attention.output.weight",
        "self_attn.out_proj.bias": "attention.output.bias",
        "linear1.weight": "ffn.expand.weight",
        "linear1.bias": "ffn.expand.bias",
        "linear2.weight": "ffn.contract.weight",
        "linear2.bias": "ffn.contract.bias",
        "norm1.weight": "attention_residual.norm.weight",
        "norm1.bias": "attention_residual.norm.bias",
        "norm2.weight": "ffn_residual.norm.weight",
        "norm2.bias": "ffn_residual.norm.bias",
    }
    layer.load_state_dict({theirs: own[ours] for theirs, ours in names.items()})
    return layer.eval()


def one_by_one(model: LanguageModel, source: list[int], target: list[int], prefix: str) -> Tensor:
    """Logits of one pair, (T, V), with a mask written out by hand."""
    first = torch.tensor([*source, EOS])
    row = torch.cat((model.source_embedding(first), model.target_embedding(torch.tensor([BOS, *target]))))
    x = row * math.sqrt(16) + sinusoids(torch.arange(len(row)), 16)
    hidden = torch.tensor(
        [
            [j > i and not (prefix == "both" and i < len(first) and j < len(first)) for j in range(len(row))]
            for i in range(len(row))
        ]
    )
    x = x.unsqueeze(0)
    for number in range(len(model.decoder)):
        x = torch_layer(model, number)(x, src_mask=hidden)
    logits: Tensor = model.output(model.decoder_norm(x[0, len(first) :]))
    return logits


@pytest.mark.parametrize("prefix", ["causal", "both"])
@pytest.mark.parametrize("vocabularies", [Vocabularies(20, 20, True), Vocabularies(20, 17, False)])
def test_it_is_a_stack_over_source_and_target_in_a_row(prefix: str, vocabularies: Vocabularies) -> None:
    torch.manual_seed(1)
    settings = {"size": "tiny", "width": 16, "layers": 2, "heads": 2, "ffn": 24, "prefix": prefix}
    model = LanguageModel(LanguageModelSettings.model_validate(settings), vocabularies).double().eval()
    logits = model(collate_ids(SOURCES, TARGETS, range(2)))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected = one_by_one(model, source, target, prefix)
        assert_close(logits[row, : len(target) + 1], expected, rtol=0.0, atol=1e-10)
