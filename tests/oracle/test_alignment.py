"""Word alignment against NLTK's IBM models, enumeration of all alignments, and a textbook algorithm."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product

import numpy as np
import pytest
from nltk.translate import AlignedSent, Alignment, IBMModel1, IBMModel2
from nltk.translate.metrics import alignment_error_rate

from seqloom.evaluate.alignment import Gold, score_alignment
from seqloom.statistical.alignment.align import Aligner
from seqloom.statistical.alignment.bitext import build_bitext
from seqloom.statistical.alignment.em import Direction, Translations, iterate
from seqloom.statistical.alignment.hmm import HmmPositions
from seqloom.statistical.alignment.position import (
    DiagonalPositions,
    FreePositions,
    PositionModel,
    UniformPositions,
)
from seqloom.statistical.alignment.symmetrise import METHODS, Method, symmetrise_links

Sentence = list[int]


def corpus(seed: int, pairs: int = 40, words: int = 12) -> list[tuple[Sentence, Sentence]]:
    """Return sentences without repeated words: NLTK normalises per word, which counts a repeated one twice."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 6, (pairs, 2))
    return [
        (random.choice(words, s, replace=False).tolist(), random.choice(words, t, replace=False).tolist())
        for s, t in lengths
    ]


def direction(pairs: list[tuple[Sentence, Sentence]], positions: PositionModel) -> Direction:
    with ThreadPoolExecutor(1) as pool:
        bitext = build_bitext(pairs, pool)
    return Direction(bitext, Translations.uniform(bitext), positions, prior=0.0)


def run_em(found: Direction, iterations: int) -> list[float]:
    with ThreadPoolExecutor(1) as pool:
        return [iterate([found], pool)[0] for _ in range(iterations)]


def for_nltk(pairs: list[tuple[Sentence, Sentence]]) -> list[AlignedSent]:
    return [AlignedSent([f"t{w}" for w in target], [f"s{w}" for w in source]) for source, target in pairs]


def assert_same_words(ours: Direction, nltk_model: IBMModel1) -> None:
    bitext = ours.bitext
    for s, t, probability in zip(bitext.source, bitext.target, ours.translations.words, strict=True):
        assert probability == pytest.approx(nltk_model.translation_table[f"t{t}"][f"s{s}"], abs=1e-10)
    for t in np.unique(bitext.target):
        assert ours.translations.null[t] == pytest.approx(
            nltk_model.translation_table[f"t{t}"][None], abs=1e-10
        )


def test_ibm_1_matches_nltk() -> None:
    pairs = corpus(1)
    ours = direction(pairs, UniformPositions())
    run_em(ours, 4)
    assert_same_words(ours, IBMModel1(for_nltk(pairs), 4))


def test_without_a_prior_the_aligner_trains_ibm_2_as_published() -> None:
    pairs = corpus(5)
    aligner = Aligner(pairs, prior=0.0)
    aligner.train("ibm1", iterations=3)
    aligner.train("ibm2", iterations=3)  # NLTK runs twice as many iterations of IBM 1
    assert_same_words(aligner.directions[0], IBMModel2(for_nltk(pairs), 3))


def test_ibm_2_matches_nltk() -> None:
    pairs = corpus(2)
    ours = direction(pairs, UniformPositions())
    run_em(ours, 6)  # NLTK runs twice as many iterations of IBM 1
    positions = FreePositions(UniformPositions(), weight=0.0)
    ours.positions = positions
    run_em(ours, 3)
    nltk_model = IBMModel2(for_nltk(pairs), 3)
    assert_same_words(ours, nltk_model)
    for (length, size), table in positions.table.items():
        for j, i in product(range(length), range(size)):
            right = nltk_model.alignment_table[i + 1][j + 1][size][length]
            assert table[j, i] == pytest.approx(right, abs=1e-10)
        assert table[0, -1] == pytest.approx(nltk_model.alignment_table[0][1][size][length], abs=1e-10)


@pytest.mark.parametrize(
    "positions",
    [UniformPositions(), FreePositions(UniformPositions(), weight=0.0), DiagonalPositions(), HmmPositions()],
    ids=["ibm1", "ibm2", "diagonal", "hmm"],
)
def test_likelihood_increases_at_every_iteration(positions: PositionModel) -> None:
    likelihoods = run_em(direction(corpus(3, pairs=60), positions), 12)
    assert all(after >= before - 1e-9 for before, after in pairwise(likelihoods))
    assert likelihoods[-1] > likelihoods[0] + 10


def enumerated(
    hmm: HmmPositions, words: np.ndarray, null: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return likelihood, posteriors of links and null, and visits of one pair, summed over all state sequences.

    State (i, 0) writes from source word i; (i, 1) writes from the null word and remembers i.
    """
    length, size = words.shape
    jumps, starts = hmm.jumps, hmm.starts
    clip = lambda d: int(np.clip(d, -hmm.width, hmm.width)) + hmm.width  # noqa: E731
    total, links, empty = 0.0, np.zeros((length, size)), np.zeros(length)
    visits = np.zeros((size + 1, size))
    for path in product(product(range(size), (0, 1)), repeat=length):
        p = 1.0
        for j, (i, kind) in enumerate(path):
            if j == 0:
                p *= starts[min(i, hmm.width)] / sum(starts[min(k, hmm.width)] for k in range(size))
            elif kind:
                p *= i == path[j - 1][0]
            else:
                before = path[j - 1][0]
                p *= jumps[clip(i - before)] / sum(jumps[clip(k - before)] for k in range(size))
            p *= hmm.null * null[j] if kind else (1 - hmm.null) * words[j, i]
        total += p
        visits[0, path[0][0]] += p
        for j, (i, kind) in enumerate(path):
            if kind:
                empty[j] += p
            else:
                links[j, i] += p
                if j:
                    visits[1 + path[j - 1][0], i] += p
    return total, links / total, empty / total, visits / total


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (4, 3), (3, 4)])
def test_hmm_matches_enumeration_of_all_alignments(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(sum(shape))
    hmm = HmmPositions(null=0.3, width=2)
    hmm.jumps, hmm.starts = random.uniform(0.1, 2, 5), random.uniform(0.1, 2, 3)
    words, null = random.uniform(0.01, 1, (2, *shape)), random.uniform(0.01, 1, (2, shape[0]))
    found = hmm.e_step(words, null)
    right = [enumerated(hmm, *one) for one in zip(words, null, strict=True)]
    assert found.log_likelihood == pytest.approx(sum(np.log(one[0]) for one in right))
    np.testing.assert_allclose(found.links, [one[1] for one in right], atol=1e-12)
    np.testing.assert_allclose(found.null, [one[2] for one in right], atol=1e-12)
    np.testing.assert_allclose(found.visits, sum(one[3] for one in right), atol=1e-12)


def textbook(
    forward: set[tuple[int, int]], backward: set[tuple[int, int]], shape: tuple[int, int], name: str
) -> set:
    """Symmetrise as in Koehn's book, with sets and full scans."""
    union = forward | backward
    links = forward & backward
    if name in ("union", "intersection", "forward", "backward"):
        return {"union": union, "intersection": links, "forward": forward, "backward": backward}[name]
    neighbours = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    has = lambda side, word: any(link[side] == word for link in links)  # noqa: E731
    grew = True
    while grew:
        grew = False
        for i, j in product(range(shape[0]), range(shape[1])):
            if (i, j) in links:
                for di, dj in neighbours:
                    new = (i + di, j + dj)
                    if new in union and new not in links and (not has(0, new[0]) or not has(1, new[1])):
                        links = links | {new}
                        grew = True
    if name != "grow-diag":
        for side in (forward, backward):
            for i, j in product(range(shape[0]), range(shape[1])):
                free = [not has(0, i), not has(1, j)]
                if (i, j) in side and (all(free) if name.endswith("-and") else any(free)):
                    links = links | {(i, j)}
    return links


@pytest.mark.parametrize("method", METHODS)
def test_symmetrisation_matches_the_textbook(method: Method) -> None:
    random = np.random.default_rng(5)
    for shape in [(1, 1), (2, 5), (6, 4), (8, 8)]:
        forward, backward = random.random((2, 30, *shape)) < 0.3
        found = symmetrise_links(forward, backward, method)
        for row in range(len(found)):
            sides = [set(map(tuple, np.argwhere(side[row]).tolist())) for side in (forward, backward)]
            right = textbook(*sides, shape, method)
            assert set(map(tuple, np.argwhere(found[row]).tolist())) == right


def test_error_rate_matches_nltk() -> None:
    random = np.random.default_rng(6)
    for _ in range(20):
        found, sure, more = (set(map(tuple, random.integers(0, 5, (6, 2)).tolist())) for _ in range(3))
        score = score_alignment([found], [Gold(frozenset(sure), frozenset(sure | more))])
        nltk_model = alignment_error_rate(Alignment(sure), Alignment(found), Alignment(sure | more))
        assert score.aer == pytest.approx(nltk_model)


def test_agreement_reduces_disputed_links() -> None:
    random = np.random.default_rng(7)
    pairs = []
    for _ in range(300):
        source = random.integers(0, 40, random.integers(3, 8)).tolist()
        target = [word + 1 for word in source if random.random() < 0.8]
        random.shuffle(target[: len(target) // 2])
        pairs.append((source, target or [0]))

    def disputed(agree: bool) -> int:
        aligner = Aligner(pairs)
        aligner.train("hmm", agree=agree)
        forward, backward = (aligner.links(side) for side in ("forward", "backward"))
        return sum(
            len(set(map(tuple, one.tolist())) ^ set(map(tuple, other.tolist())))
            for one, other in zip(forward, backward, strict=True)
        )

    assert disputed(agree=True) < disputed(agree=False)
