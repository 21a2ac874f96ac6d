"""Search with required words against a slow search that tries every token, and against brute force."""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.batching import collate_ids
from seqloom.decode.constraints import Forms, Requirements, required_search
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking
from seqloom.decode.reference import PartialTarget, continuations
from seqloom.decode.rules import Rules
from seqloom.text.word_edges import WordEdges
from seqloom.types import BOS, EOS, Batch
from support.step_models import random_model

V = 7


@cache
def _model(name: str, ends: float = 0.0) -> Any:
    """Return a random model with peaked distributions, whose bias to end is `ends`."""
    model = random_model(name, V, seed=3)
    with torch.no_grad():
        model.output.weight.mul_(3)
        model.output.bias[EOS] += ends
    return model


def _sentence(source: list[int]) -> Batch:
    return collate_ids([source], None, [0])


def _slow(
    model: Any,
    sentence: Batch,
    plan: BeamOptions,
    required: Requirements,
    longest: int,
) -> list[DecodedSequence]:
    """Search one hypothesis at a time, trying every token."""
    memory, state = model.start(sentence)
    opened, completed = [PartialTarget((), (), (), state)], list[PartialTarget]()
    wanted, source_length = required.total, int(sentence.source_lengths[0])

    def progress(one: PartialTarget) -> int:
        return required.count(one.tokens[:-1] if one.ended else one.tokens)

    for length in range(1, longest + 1):
        longer = [n for one in opened for n in continuations(model, sentence, memory, one, plan.rules)]
        longer = [one for one in longer if not one.ended or progress(one) == wanted]
        opened = []
        for bank in range(wanted + 1):
            ranked = sorted((one for one in longer if progress(one) == bank), key=lambda one: -one.total)
            completed += [one for one in ranked[: plan.beam] if one.ended]
            opened += [one for one in ranked if not one.ended][: plan.beam]
        best = max((one.total for one in opened), default=-math.inf)
        if plan.satisfied([one.found(plan.ranking, source_length) for one in completed], best, length, longest):
            break
    cut = [one for one in opened if progress(one) == wanted] if len(completed) < plan.needed else []
    cut.sort(key=lambda one: one.score(plan.ranking, source_length), reverse=True)
    completed.sort(key=lambda one: one.score(plan.ranking, source_length), reverse=True)
    return [one.found(plan.ranking, source_length) for one in (*completed, *cut)]


WORD = st.integers(EOS + 1, V - 1)
NO_EDGES = WordEdges([False] * V, [False] * V)  # every token is a word
EDGES = st.builds(
    WordEdges, *[st.lists(st.booleans(), min_size=V - 3, max_size=V - 3).map(lambda own: [False] * 3 + own)] * 2
)
PHRASE = st.lists(WORD, min_size=1, max_size=2).map(tuple)
FORMS = st.lists(PHRASE, min_size=1, max_size=2, unique=True).map(tuple)


@pytest.mark.parametrize("name", ["transformer", "lstm-dot", "lm"])
@given(
    source=st.lists(WORD, min_size=1, max_size=4),
    required=st.lists(FORMS, min_size=1, max_size=2),
    edges=EDGES,
    longest=st.integers(1, 6),
    beam=st.integers(1, 3),
    stop=st.sampled_from(["count", "ahead", "hopeless", "length"]),
    prefix=st.lists(WORD, max_size=1),
    no_repeat=st.sampled_from([0, 2]),
    ends=st.sampled_from([-1.0, 2.0]),
)
@settings(max_examples=25)
def test_required_search_equals_the_slow_search(
    name: str,
    source: list[int],
    required: list[Forms],
    edges: WordEdges,
    longest: int,
    beam: int,
    stop: Any,
    prefix: list[int],
    no_repeat: int,
    ends: float,
) -> None:
    model, sentence = _model(name, ends), _sentence(source)
    plan = BeamOptions(
        beam, Ranking(), stop, rules=Rules(prefixes=[prefix] if prefix else (), no_repeat=no_repeat)
    )
    requirements = Requirements(required, edges)
    fast = required_search(model, sentence, plan, requirements, max_length=longest)
    slow = _slow(model, sentence, plan, requirements, longest)
    assert [(one.tokens, one.finished) for one in fast] == [(one.tokens, one.finished) for one in slow]
    assert [one.score for one in fast] == pytest.approx([one.score for one in slow], abs=1e-10)


def _text(tokens: tuple[int, ...]) -> str:
    """Return the tokens 4 to 6 as text: 6 is a space, so words consist of 4 and 5, and 3 is a full stop."""
    return "".join(".45 "[token - 3] for token in tokens)


BY_CHARACTER = WordEdges(*[[False, False, False, False, True, True, False]] * 2)


@given(text=st.lists(WORD, max_size=8).map(tuple), phrase=st.lists(WORD, min_size=1, max_size=3).map(tuple))
def test_a_phrase_counts_only_as_complete_words(text: tuple[int, ...], phrase: tuple[int, ...]) -> None:
    wanted = re.escape(_text(phrase))
    left, right = (r"(?<!\w)" if phrase[0] in (4, 5) else ""), (r"(?!\w)" if phrase[-1] in (4, 5) else "")
    there = re.search(left + wanted + right, _text(text)) is not None
    requirements = Requirements([(phrase,)], BY_CHARACTER)
    assert (requirements.count(text) == requirements.total) == there


@given(
    text=st.lists(WORD, max_size=7).map(tuple),
    forms=st.lists(PHRASE, min_size=1, max_size=3).map(tuple),
    times=st.integers(1, 3),
)
def test_repeated_requirements_need_as_many_separate_occurrences(
    text: tuple[int, ...], forms: Forms, times: int
) -> None:
    def most(start: int) -> int:
        """Return the largest number of separate occurrences, by trying all choices."""
        if start >= len(text):
            return 0
        here = [1 + most(start + len(form)) for form in forms if text[start : start + len(form)] == form]
        return max([most(start + 1), *here])

    requirements = Requirements([forms] * times, NO_EDGES)
    assert (requirements.count(text) == requirements.total) == (most(0) >= times)
    assert requirements.count(text) <= requirements.total


@pytest.mark.parametrize("edges", [NO_EDGES, BY_CHARACTER])
@pytest.mark.parametrize(
    "required",
    [
        *([((4,),)], [((4, 3),)], [((5,),), ((3, 3),)], [((6,),), ((6, 5),)]),
        *([((4,), (3, 5))], [((5,),), ((5,),)], [((3, 4), (5,)), ((3, 4), (5,))]),
    ],
)
def test_an_exhaustive_beam_finds_the_best_text_with_the_required_words(
    required: list[Forms], edges: WordEdges
) -> None:
    model, sentence, longest = _model("transformer"), _sentence([4, 5, 3]), 4
    plan = BeamOptions(5**longest, Ranking(alpha=0.0), "length")
    requirements = Requirements(required, edges)
    best = required_search(model, sentence, plan, requirements, max_length=longest)[0]

    def log_prob(text: tuple[int, ...]) -> float:
        memory, state = model.start(sentence)
        total, last = 0.0, BOS
        for token in (*text, EOS):
            step = model.step(memory, state, torch.tensor([last]))
            total, state, last = total + step.log_probs[0, token].item(), step.state, token
        return total

    texts = [text for n in range(longest) for text in product(range(EOS + 1, V), repeat=n)]
    fitting = [text for text in texts if requirements.count(text) == requirements.total]
    truth = max(fitting, key=log_prob)
    assert best.finished
    assert tuple(best.tokens) == truth
    assert best.score == pytest.approx(log_prob(truth), abs=1e-9)
