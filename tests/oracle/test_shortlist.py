"""Decoding over shortlists against the reference search, which masks the full vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import SamplingConfig
from seqloom.decode.constraints import Requirements, required_search
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking
from seqloom.decode.reference import RestrictedVocabulary, reference_beam_search
from seqloom.decode.rules import Rules
from seqloom.decode.sampling import sample
from seqloom.decode.shortlist import VocabularySubset
from seqloom.text.word_edges import WordEdges
from seqloom.types import EOS, UNK, Batch
from support.step_models import random_model

V = 14
NAMES = ("transformer", "lstm-additive", "gru-last", "prefix-lm")
TOKENS = st.integers(UNK + 1, V - 1)


@cache
def _model(name: str) -> Any:
    model = random_model(name, V, seed=3)
    with torch.no_grad():
        model.output.weight.mul_(3)
        model.output.bias.normal_(std=0.5)
    return model


def _batch(sources: Sequence[Sequence[int]]) -> Batch:
    return collate_ids([list(source) for source in sources], None, range(len(sources)))


def _mask(lists: Sequence[set[int]]) -> torch.Tensor:
    return torch.tensor([[token in {EOS, UNK, *own} for token in range(V)] for own in lists])


def _same(fast: Sequence[DecodedSequence], slow: Sequence[DecodedSequence]) -> None:
    assert [(one.tokens, one.finished) for one in fast] == [(one.tokens, one.finished) for one in slow]
    for one, other in zip(fast, slow, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-10)
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-10)


SENTENCES = st.lists(
    st.tuples(
        st.lists(TOKENS, min_size=1, max_size=4),  # a source
        st.sets(TOKENS, max_size=6),  # its shortlist
        st.lists(TOKENS, max_size=2),  # its prefix
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", NAMES)
@given(
    sentences=SENTENCES,
    groups=st.integers(1, 2),
    width=st.integers(1, 3),
    forbidden=st.lists(st.lists(TOKENS, min_size=1, max_size=2), max_size=2),
    no_repeat=st.integers(0, 2),
    stop=st.sampled_from(["ahead", "count", "hopeless", "length"]),
)
@settings(max_examples=25, deadline=None)
def test_a_batch_of_shortlists_equals_the_reference_search(
    name: str,
    sentences: list[tuple[list[int], set[int], list[int]]],
    groups: int,
    width: int,
    forbidden: list[list[int]],
    no_repeat: int,
    stop: Any,
) -> None:
    model, longest = _model(name), 5
    sources, lists, prefixes = zip(*sentences, strict=True)
    allowed = _mask([own | set(prefix) for own, prefix in zip(lists, prefixes, strict=True)])
    others: dict[str, Any] = {"forbidden": forbidden, "no_repeat": no_repeat}

    def plan(rules: Rules) -> BeamOptions:
        return BeamOptions(groups * width, Ranking(alpha=0.7), stop, groups=groups, diversity=0.5, rules=rules)

    choice = VocabularySubset(allowed)
    rules = choice.rules(Rules(prefixes=prefixes, **others))
    found = beam_search(
        choice.narrowed(model), _batch(sources), plan(rules), max_lengths=[longest] * len(sources)
    )
    for source, own, prefix, fast in zip(sources, allowed, prefixes, found, strict=True):
        alone = plan(Rules(prefixes=[prefix], **others))
        slow = reference_beam_search(
            RestrictedVocabulary(model, own), _batch([source]), alone, max_length=longest
        )
        _same([choice.to_full(one) for one in fast], slow)


@given(sentences=SENTENCES, seed=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_samples_over_shortlists_do_not_depend_on_the_batch(
    sentences: list[tuple[list[int], set[int], list[int]]], seed: int
) -> None:
    model, options = _model("transformer"), SamplingConfig(samples=2, seed=seed)
    sources, lists, _ = zip(*sentences, strict=True)
    allowed = _mask(lists)
    keys = range(len(sources))

    def drawn(model: Any, which: list[int]) -> list[list[DecodedSequence]]:
        batch = _batch([sources[i] for i in which])
        limits, own = [5] * len(which), [keys[i] for i in which]
        return sample(model, batch, options=options, max_lengths=limits, keys=own)

    choice = VocabularySubset(allowed)
    together = drawn(choice.narrowed(model), list(keys))
    for i in keys:
        (alone,) = drawn(RestrictedVocabulary(model, allowed[i]), [i])
        _same([choice.to_full(one) for one in together[i]], alone)


def test_required_words_over_a_shortlist_equal_those_over_a_mask() -> None:
    model, sentence, required = _model("transformer"), _batch([[5, 9, 4]]), (7, 8)
    allowed = _mask([{4, 5, 6, 7, 8}])
    choice = VocabularySubset(allowed)
    inner = tuple(choice.to_subset(required) or ())
    edges = WordEdges([token % 2 == 0 for token in range(V)], [token > UNK for token in range(V)])
    few = edges.select(choice.ids.tolist())
    narrow, full = Requirements([(inner,)], few), Requirements([(required,)], edges)
    fast = required_search(choice.narrowed(model), sentence, BeamOptions(3), narrow, max_length=6)
    slow = required_search(
        RestrictedVocabulary(model, allowed[0]), sentence, BeamOptions(3), full, max_length=6
    )
    _same([choice.to_full(one) for one in fast], slow)
    assert full.count(choice.to_full(fast[0]).tokens) == 2


def test_probabilities_are_renormalised_over_the_shortlist() -> None:
    model, sentence = _model("lstm-additive"), _batch([[5, 9, 4]])
    choice = VocabularySubset(_mask([{4, 7}]))
    narrowed = choice.narrowed(model)
    memory, state = narrowed.start(sentence)
    step = narrowed.step(memory, state, torch.tensor([1]))
    full = model.step(*model.start(sentence), torch.tensor([1])).log_probs[0].exp()
    ids = [EOS, UNK, 4, 7]
    expected = full[ids] / full[ids].sum()
    assert choice.ids.tolist() == [0, 1, EOS, UNK, 4, 7]
    torch.testing.assert_close(step.log_probs[0].exp(), torch.cat((torch.zeros(2).double(), expected)))
