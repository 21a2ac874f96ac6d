"""The information of a pair, against a computation by loops over words."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from seqloom.statistical.alignment.align import Aligner
from seqloom.statistical.alignment.bitext import Pair
from seqloom.statistical.alignment.information import pair_information

IMAGINED = 5.0


def random_pairs(seed: int, count: int) -> list[Pair]:
    """Pairs with repeated words, of which target words are source words plus 100, and some noise."""
    random = np.random.default_rng(seed)
    pairs: list[Pair] = []
    for _ in range(count):
        source = random.integers(0, 8, random.integers(1, 6)).tolist()
        target = [word + 20 for word in source if random.random() < 0.8] or [27]
        pairs.append((source, target))
    return pairs


def slow_information(pairs: list[Pair]) -> list[float]:
    """The formula of the module, one word after the other."""
    aligner = Aligner(pairs)
    aligner.train("diagonal")
    total, words = [0.0] * len(pairs), [0] * len(pairs)
    for backward in (False, True):
        sides = [(list(b), list(a)) if backward else (list(a), list(b)) for a, b in pairs]
        positions = aligner.directions[backward].positions
        links = []  # per pair {(e, f): expected count}
        for pair, (source, target) in enumerate(sides):
            posterior = aligner.posteriors(pair)[backward]  # (S, T) of the pair as it was given
            matrix = posterior.T if backward else posterior
            own: Counter[tuple[int, int]] = Counter()
            for i, e in enumerate(source):
                for j, f in enumerate(target):
                    own[e, f] += matrix[i, j]  # type: ignore[assignment]
            links.append(own)
        everywhere: Counter[tuple[int, int]] = Counter()
        for own in links:
            for key, value in own.items():
                everywhere[key] += value
        occurrences = Counter(f for _, target in sides for f in target)
        size = sum(occurrences.values())
        for pair, (source, target) in enumerate(sides):
            others = {key: value - links[pair].get(key, 0) for key, value in everywhere.items()}
            prior = positions.prior((len(target), len(source)))  # type: ignore[attr-defined]
            for j, f in enumerate(target):
                elsewhere = occurrences[f] - target.count(f)
                if not elsewhere:
                    continue
                share = elsewhere / (size - len(target))
                p = prior[j, -1] * share
                for i, e in enumerate(source):
                    given = sum(value for (one, _), value in others.items() if one == e)
                    t = (others.get((e, f), 0) + IMAGINED * share) / (given + IMAGINED)
                    p += t * (prior[j, i] + (1 - prior[j, -1]) / len(source)) / 2
                total[pair] += math.log(p / share)
                words[pair] += 1
    return [a / b if b else math.nan for a, b in zip(total, words, strict=True)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_are_those_of_the_formula(seed: int) -> None:
    pairs = random_pairs(seed, 12)
    np.testing.assert_allclose(pair_information(pairs), slow_information(pairs), rtol=1e-9, atol=1e-9)


def test_a_wrong_pair_does_not_explain_itself() -> None:
    """Its rare words occur together only in this pair, which an aligner takes as evidence."""
    good = random_pairs(5, 200)
    scores = pair_information([*good, ([1, 1, 2], [25, 26, 24])])
    assert scores[-1] < 0 < np.median(scores)


def test_words_that_occur_nowhere_else_are_not_judged() -> None:
    pairs: list[Pair] = [([0, 1], [0, 1]), ([2], [2]), ([0, 1], [0, 1])]
    scores = pair_information(pairs)
    assert np.isnan(scores[1])
    assert np.isfinite(scores[[0, 2]]).all()


def test_threads_and_parts_do_not_change_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = random_pairs(7, 60)
    expected = pair_information(pairs)
    np.testing.assert_array_equal(pair_information(pairs, threads=3), expected)
    monkeypatch.setattr("seqloom.statistical.alignment.information.CHUNK", 1)
    np.testing.assert_allclose(pair_information(pairs), expected, rtol=1e-12)


def test_empty_sides_and_no_pairs() -> None:
    assert pair_information([]).shape == (0,)
    assert np.isnan(pair_information([([], [1]), ([1], [])])).all()


def test_progress_counts_every_pass() -> None:
    from seqloom.statistical.alignment.information import PASSES

    pairs, seen = random_pairs(1, 30), []
    pair_information(pairs, on_progress=seen.append)
    assert sum(seen) == PASSES * len(pairs)
