"""Beam search against the reference search that defines it, and both against exact search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import Stop
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking
from seqloom.decode.reference import exhaustive_search, reference_beam_search
from seqloom.decode.rules import Rules
from seqloom.errors import SeqloomError
from seqloom.types import BOS, EOS, Batch
from support.step_models import (
    FITTED,
    FITTED_VOCABULARY,
    STEP_MODELS,
    TableModel,
    batch_for,
    fitted,
    random_model,
    tolerance,
)

V = FITTED_VOCABULARY


@cache
def _model(name: str, seed: int, ends: float) -> Any:
    """Return a fitted model, or a random one with peaked distributions, whose bias to end is `ends`."""
    if name in FITTED:
        return fitted(name).model
    model = random_model(name, V, seed)
    with torch.no_grad():
        model.output.weight.mul_(3)
        model.output.bias.normal_(std=0.5)
        model.output.bias[EOS] += ends
    return model


def _batch(sources: Sequence[Sequence[int]]) -> Batch:
    """Return the batch of these sources, each with a chain as its tree, for models that read trees."""
    return collate_ids(sources, None, range(len(sources)), [range(len(source)) for source in sources])


def _same(fast: Sequence[DecodedSequence], slow: Sequence[DecodedSequence], tolerance: float = 1e-10) -> None:
    assert [(one.tokens, one.finished) for one in fast] == [(one.tokens, one.finished) for one in slow]
    for one, other in zip(fast, slow, strict=True):
        assert one.score == pytest.approx(other.score, abs=tolerance)
        assert one.log_probs == pytest.approx(other.log_probs, abs=tolerance)


SOURCE = st.lists(st.integers(EOS + 1, V - 1), min_size=1, max_size=5)


@pytest.mark.parametrize("name", STEP_MODELS)
@given(
    sentences=st.lists(st.tuples(SOURCE, st.integers(1, 6)), min_size=1, max_size=3),
    beam=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 1.7]),
    seed=st.integers(0, 1),
    ends=st.sampled_from([-1.0, 1.0]),
)
@settings(max_examples=8)
def test_beam_search_equals_the_reference_search(
    name: str, sentences: list[tuple[list[int], int]], beam: int, penalty: float, seed: int, ends: float
) -> None:
    model = _model(name, seed, ends)
    sources, longest = zip(*sentences, strict=True)
    plan = BeamOptions(beam, Ranking(alpha=penalty))
    found = beam_search(model, batch_for(name, sources), plan, max_lengths=longest)
    for source, limit, fast in zip(sources, longest, found, strict=True):
        slow = reference_beam_search(model, batch_for(name, [source]), plan, max_length=limit)
        _same(fast, slow, tolerance(name))


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("name", STEP_MODELS)
def test_an_exhaustive_beam_equals_exact_search(name: str, penalty: float) -> None:
    model, source, longest = _model(name, 0, -1.0), [4, 3, 5], 3
    everything = (V - EOS - 1) ** longest
    batch, ranking = batch_for(name, [source]), Ranking(alpha=penalty)
    best = exhaustive_search(model, batch, max_length=longest, ranking=ranking)
    (found,) = beam_search(model, batch, BeamOptions(2 * everything, ranking), max_lengths=[longest])
    _same(found[:1], [best], tolerance(name))


def _sparse(seed: int, *, vocabulary: int = 6, longest: int = 5, density: float = 0.5) -> TableModel:
    """Return a model with random rows by (source, step, last token), where many tokens are impossible."""
    return TableModel.random(8, longest, vocabulary, vocabulary, seed=seed, scale=2, density=density)


@given(
    seed=st.integers(0, 10_000),
    sentences=st.lists(st.tuples(st.integers(3, 7), st.integers(1, 5)), min_size=1, max_size=5),
    beam=st.integers(1, 7),
    penalty=st.sampled_from([0.0, 0.4, 1.0, 2.0]),
    density=st.sampled_from([0.2, 0.5, 1.0]),
)
@settings(max_examples=150)
def test_both_searches_agree_if_many_tokens_are_impossible(
    seed: int, sentences: list[tuple[int, int]], beam: int, penalty: float, density: float
) -> None:
    model = _sparse(seed, density=density)
    longest = [limit for _, limit in sentences]
    batch = _batch([[source] for source, _ in sentences])
    found = beam_search(model, batch, BeamOptions(beam, Ranking(alpha=penalty)), max_lengths=longest)
    for (source, limit), fast in zip(sentences, found, strict=True):
        slow = reference_beam_search(
            model, _batch([[source]]), BeamOptions(beam, Ranking(alpha=penalty)), max_length=limit
        )
        _same(fast, slow)


@given(
    seed=st.integers(0, 10_000),
    longest=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 0.4, 1.0, 2.0]),
    density=st.sampled_from([0.2, 0.6, 1.0]),
)
@settings(max_examples=100)
def test_exact_search_equals_enumeration(seed: int, longest: int, penalty: float, density: float) -> None:
    model = _sparse(seed, density=density)
    everything = [(*body, EOS) for n in range(longest) for body in product(range(EOS + 1, 6), repeat=n)] + list(
        product(range(EOS + 1, 6), repeat=longest)
    )
    ranked = []
    for tokens in everything:
        total = sum(
            model.log_probs[3, t, last, token].item()
            for t, (last, token) in enumerate(zip((1, *tokens), tokens, strict=False))
        )
        ranked.append((tokens[-1] == EOS and total > -math.inf, total / len(tokens) ** penalty, tokens))
    finished, score, tokens = max(ranked)
    best = exhaustive_search(model, _batch([[3]]), max_length=longest, ranking=Ranking(alpha=penalty))
    assert best.score == pytest.approx(score, abs=1e-12)
    assert (best.finished, best.tokens) == (finished, [token for token in tokens if token != EOS])
    beam = reference_beam_search(
        model, _batch([[3]]), BeamOptions(2, Ranking(alpha=penalty)), max_length=longest
    )[0]
    assert (best.finished, best.score) >= (beam.finished, beam.score - 1e-12)


TOKENS = st.integers(EOS + 1, 5)


@st.composite
def plans(draw: st.DrawFn, sentences: int) -> tuple[BeamOptions, list[Rules]]:
    """Draw beam options for this number of sentences of Sparse, and the rules of each sentence alone."""
    groups = draw(st.integers(1, 3))
    ranking = Ranking(
        draw(st.sampled_from(["none", "length", "gnmt"])),
        alpha=draw(st.sampled_from([0.0, 0.6, 1.5])),
        reward=draw(st.sampled_from([0.0, 0.3, 2.0])),
    )
    prefixes = draw(st.lists(st.lists(TOKENS, max_size=2), min_size=sentences, max_size=sentences))
    allowed = draw(st.none() | st.sets(st.integers(EOS, 5), min_size=1))
    others: dict[str, Any] = {
        "forbidden": draw(st.lists(st.lists(TOKENS, min_size=1, max_size=2), max_size=2)),
        "allowed": None if allowed is None else torch.tensor([token in allowed for token in range(6)]),
        "min_length": draw(st.integers(0, 3)),
        "no_repeat": draw(st.integers(0, 2)),
    }
    stop: Stop = draw(st.sampled_from(["ahead", "count", "hopeless", "length"]))
    plan = BeamOptions(
        groups * draw(st.integers(1, 3)),
        ranking,
        stop=stop,
        stop_after=draw(st.none() | st.integers(1, 8)) if stop in ("ahead", "count") and groups == 1 else None,
        nbest=draw(st.integers(1, 2)),
        groups=groups,
        diversity=draw(st.sampled_from([0.0, 0.5, 3.0])),
        rules=Rules(prefixes=prefixes, **others),
    )
    return plan, [Rules(prefixes=[prefix], **others) for prefix in prefixes]


@given(
    seed=st.integers(0, 10_000),
    density=st.sampled_from([0.3, 1.0]),
    sentences=st.lists(st.tuples(st.integers(3, 7), st.integers(1, 5)), min_size=1, max_size=4),
    data=st.data(),
)
@settings(max_examples=300, deadline=None)
def test_both_searches_agree_on_all_options(
    seed: int, density: float, sentences: list[tuple[int, int]], data: st.DataObject
) -> None:
    model = _sparse(seed, density=density)
    plan, rules = data.draw(plans(len(sentences)))
    batch = _batch([[source] for source, _ in sentences])
    found = beam_search(model, batch, plan, max_lengths=[limit for _, limit in sentences])
    for (source, limit), own, fast in zip(sentences, rules, found, strict=True):
        alone = replace(plan, rules=own)
        _same(fast, reference_beam_search(model, _batch([[source]]), alone, max_length=limit))


@pytest.mark.parametrize("name", STEP_MODELS)
def test_both_searches_agree_on_coverage(name: str) -> None:
    model, sources = _model(name, 0, 0.0), [[4, 3, 5], [3], [6, 6, 4, 3]]
    batch, plan, limits = batch_for(name, sources), BeamOptions(3, Ranking(coverage=0.8)), [3] * 3
    if model.step(*model.start(batch), torch.tensor([BOS] * 3)).attention is None:
        with pytest.raises(SeqloomError, match="coverage"):
            beam_search(model, batch, plan, max_lengths=limits)
        return
    plain = beam_search(model, batch, BeamOptions(3), max_lengths=limits)
    found = beam_search(model, batch, plan, max_lengths=limits)
    assert [one.score for one in found[2]] != [one.score for one in plain[2]]
    for source, fast in zip(sources, found, strict=True):
        slow = reference_beam_search(model, batch_for(name, [source]), plan, max_length=3)
        _same(fast, slow, tolerance(name))


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("after", [1, 2, 7])
def test_a_search_stops_after_a_number_of_completed_hypotheses(beam: int, after: int) -> None:
    """Until then, it completes the same hypotheses as a search up to the maximum length."""
    model = _sparse(11, longest=9, density=1.0)
    model.log_probs[..., EOS] = -0.5
    (all_,) = beam_search(model, _batch([[3]]), BeamOptions(beam, stop="length"), max_lengths=[9])
    (some,) = beam_search(model, _batch([[3]]), BeamOptions(beam, stop_after=after), max_lengths=[9])
    lengths = sorted(len(one.tokens) for one in all_ if one.finished)
    assert len(lengths) > after
    in_time = [one for one in all_ if one.finished and len(one.tokens) <= lengths[after - 1]]
    _same(some, in_time)


@given(seed=st.integers(0, 10_000), nbest=st.integers(1, 3), reward=st.sampled_from([0.0, 0.5]))
@settings(max_examples=100, deadline=None)
def test_stopping_when_hopeless_does_not_change_the_best(seed: int, nbest: int, reward: float) -> None:
    model = _sparse(seed, density=1.0)
    ranking = Ranking(alpha=0.7, reward=reward)
    early = BeamOptions(4, ranking, stop="hopeless", nbest=nbest)
    (one,) = beam_search(model, _batch([[3]]), early, max_lengths=[5])
    (all_,) = beam_search(model, _batch([[3]]), BeamOptions(4, ranking, stop="length"), max_lengths=[5])
    _same(one[:nbest], all_[:nbest])


def test_diverse_groups_find_different_outputs() -> None:
    model = _sparse(3, density=1.0)
    (same,) = beam_search(model, _batch([[3]]), BeamOptions(3, groups=3), max_lengths=[5])
    (other,) = beam_search(model, _batch([[3]]), BeamOptions(3, groups=3, diversity=9.0), max_lengths=[5])
    assert len({tuple(one.tokens) for one in same}) == 1
    assert len({tuple(one.tokens) for one in other}) == 3


def test_the_bound_prunes_most_of_the_search_space() -> None:
    model = _sparse(1, vocabulary=20, longest=5, density=1.0)
    exhaustive_search(model, _batch([[3]]), max_length=5, ranking=Ranking(alpha=0.0))
    assert model.steps < sum(17**n for n in range(5)) / 20


def test_exact_search_fails_at_its_limit() -> None:
    model = _sparse(1, density=1.0)
    with pytest.raises(SeqloomError, match=r"exact search .* 4 hypotheses"):
        exhaustive_search(model, _batch([[3]]), max_length=5, limit=4)
    assert model.steps == 4
