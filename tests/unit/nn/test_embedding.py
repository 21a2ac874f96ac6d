from __future__ import annotations

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.nn.embedding import embeddings_and_output
from seqloom.types import Vocabularies

SHARED, SEPARATE = Vocabularies(9, 9, True), Vocabularies(9, 7, False)


@pytest.mark.parametrize(
    "vocabularies, tie, sides, output",
    [
        (SHARED, "auto", True, True),
        (SHARED, "all", True, True),
        (SHARED, "target", False, True),
        (SHARED, "none", False, False),
        (SEPARATE, "auto", False, True),
        (SEPARATE, "target", False, True),
        (SEPARATE, "none", False, False),
    ],
)
def test_weight_tying(vocabularies: Vocabularies, tie: str, sides: bool, output: bool) -> None:
    source, target, top = embeddings_and_output(vocabularies, 4, tie)  # type: ignore[arg-type]
    assert (source.weight is target.weight) == sides
    assert (top.weight is target.weight) == output
    assert source.weight.shape == (vocabularies.source, 4)
    assert target.weight.shape == top.weight.shape == (vocabularies.target, 4)


def test_an_output_layer_of_another_width_is_not_tied() -> None:
    source, target, top = embeddings_and_output(SHARED, 4, "auto", 6)
    assert source is target
    assert top.weight.shape == (9, 6) and target.weight.shape == (9, 4)
    _, target, top = embeddings_and_output(SHARED, 4, "auto", 4)
    assert top.weight is target.weight


def test_tying_all_needs_one_tokenizer() -> None:
    with pytest.raises(SeqloomError, match=r"model\.tie=all needs one tokenizer") as caught:
        embeddings_and_output(SEPARATE, 4, "all")
    assert "text.joint=true" in caught.value.hint


def test_initial_logits_have_unit_scale() -> None:
    torch.manual_seed(1)
    _, target, output = embeddings_and_output(Vocabularies(500, 500, True), 256, "auto")
    assert target.weight.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert not output.bias.any()


def test_initial_vectors_of_frames_have_the_norm_of_embeddings() -> None:
    torch.manual_seed(1)
    source, target, output = embeddings_and_output(Vocabularies(39, 500, False, features=True), 256, "auto")
    vectors = source(torch.randn(4, 50, 39, dtype=torch.float64))
    assert vectors.shape == (4, 50, 256) and vectors.dtype == torch.float32
    assert vectors.norm(dim=-1).mean().item() == pytest.approx(
        target.weight.norm(dim=-1).mean().item(), rel=0.2
    )
    assert output.weight is target.weight
