"""Coverage penalty: it uses the mean of all heads, regardless of the alignment head."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.constraints import required_search
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking
from seqloom.decode.reference import reference_beam_search
from seqloom.errors import SeqloomError
from seqloom.text.word_edges import WordEdges
from seqloom.types import Batch, Head, Step, StepModel, Tree

VOCABULARY, SOURCE, LONGEST = 7, [4, 5, 6], 4


class TwoHeads(StepModel):
    """StepModel with random distributions and two heads of random attention, by position and last token."""

    def __init__(self, *, attends: bool = True) -> None:
        random = torch.Generator().manual_seed(3)
        shape = (LONGEST, VOCABULARY, VOCABULARY)
        self.log_probs = torch.randn(shape, generator=random).log_softmax(-1)
        heads = torch.randn(LONGEST, VOCABULARY, 1, 2, len(SOURCE) + 1, generator=random)
        self.attention = (3 * heads).softmax(-1) if attends else None

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return (), torch.zeros_like(batch.source_lengths)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        attention = None if self.attention is None else self.attention[state, last]
        return Step(self.log_probs[state, last], state + 1, attention)


PLAN = BeamOptions(beam=3, ranking=Ranking(coverage=2.0))
SENTENCE = collate_ids([SOURCE], None, [0])


def _beam(model: StepModel, head: Head | None) -> list[DecodedSequence]:
    return beam_search(model, SENTENCE, PLAN, max_lengths=[LONGEST], return_attention=True, head=head)[0]


def _required(model: StepModel, head: Head | None) -> list[DecodedSequence]:
    edges = WordEdges((True,) * VOCABULARY, (True,) * VOCABULARY)
    return required_search(
        model, SENTENCE, PLAN, [(5,)], edges, max_length=LONGEST, return_attention=True, head=head
    )


@pytest.mark.parametrize("search", [_beam, _required])
def test_the_alignment_head_does_not_change_scores(search: Callable[..., list[DecodedSequence]]) -> None:
    mean, head = search(TwoHeads(), None), search(TwoHeads(), Head(0, 1))
    assert [(one.tokens, one.score) for one in mean] == [(one.tokens, one.score) for one in head]
    pairs = [(one.attention, other.attention) for one, other in zip(mean, head, strict=True)]
    assert all(a is not None and b is not None and not torch.equal(a, b) for a, b in pairs)


def test_the_reference_search_ranks_identically() -> None:
    slow = reference_beam_search(TwoHeads(), SENTENCE, PLAN, max_length=LONGEST)
    fast = _beam(TwoHeads(), Head(0, 1))
    assert [one.tokens for one in fast] == [one.tokens for one in slow]
    assert [one.score for one in fast] == pytest.approx([one.score for one in slow], abs=1e-6)


@pytest.mark.parametrize("search", [_beam, _required])
def test_attention_of_a_model_without_attention_is_an_error(
    search: Callable[..., list[DecodedSequence]],
) -> None:
    with pytest.raises(SeqloomError, match="attention"):
        search(TwoHeads(attends=False), None)
    with pytest.raises(SeqloomError, match="coverage_penalty"):
        reference_beam_search(TwoHeads(attends=False), SENTENCE, PLAN, max_length=LONGEST)
