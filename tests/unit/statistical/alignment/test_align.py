"""Tests of alignment on a corpus with one-to-one word translations."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.statistical.alignment import bitext
from seqloom.statistical.alignment.align import MODELS, Aligner, Model, Round, align, check_names, passes


def toy(pairs: int = 200, seed: int = 1) -> list[tuple[list[int], list[int]]]:
    """Return pairs in which word w translates to w + 100 and neighbours are often swapped."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(pairs):
        source = random.choice(30, random.integers(2, 8), replace=False)
        target = source + 100
        if random.random() < 0.5:
            target[:2] = target[1::-1].copy()
        found.append((source.tolist(), target.tolist()))
    return found


def gold(pair: tuple[list[int], list[int]]) -> list[list[int]]:
    return sorted([i, pair[1].index(word + 100)] for i, word in enumerate(pair[0]))


@pytest.mark.parametrize("model", MODELS)
def test_translations_are_linked(model: Model) -> None:
    pairs = toy()
    links = align(pairs, model=model)
    wrong = sum(row.tolist() != gold(pair) for row, pair in zip(links, pairs, strict=True))
    assert wrong <= 0.03 * len(pairs)
    assert all(row.dtype == np.int32 and row.shape[1:] == (2,) for row in links)


def test_pairs_with_an_empty_side_have_no_links() -> None:
    pairs = toy(20)
    holes = [([], []), *pairs[:10], ([1], []), ([], [101]), *pairs[10:]]
    links = align(holes)
    assert [len(links[i]) for i in (0, 11, 12)] == [0, 0, 0]
    rest = [*links[1:11], *links[13:]]
    for with_holes, alone in zip(rest, align(pairs), strict=True):
        np.testing.assert_array_equal(with_holes, alone)


def test_empty_corpus_and_empty_pairs_have_no_links() -> None:
    assert align([]) == []
    assert [len(row) for row in align([([], [1]), ([2], [])])] == [0, 0]


def test_the_result_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitext, "CHUNK", 200)  # many chunks, so that threads share the work
    pairs = toy(100)
    one, three = (Aligner(pairs, threads=threads) for threads in (1, 3))
    for aligner in (one, three):
        aligner.train("hmm", iterations=3)
    assert len(one.bitext.chunks) > 10
    assert one.rounds == three.rounds
    for left, other in zip(one.directions, three.directions, strict=True):
        np.testing.assert_array_equal(left.translations.words, other.translations.words)
    for left_links, other_links in zip(one.links("union"), three.links("union"), strict=True):
        np.testing.assert_array_equal(left_links, other_links)


def test_chunk_size_only_affects_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = toy(100)
    whole = Aligner(pairs)
    whole.train("hmm", iterations=3)
    monkeypatch.setattr(bitext, "CHUNK", 50)
    parts = Aligner(pairs)
    parts.train("hmm", iterations=3)
    assert len(whole.bitext.chunks) == 1
    np.testing.assert_allclose(
        whole.directions[0].translations.words, parts.directions[0].translations.words, rtol=1e-8
    )


def test_swapped_pairs_have_swapped_links() -> None:
    pairs = toy(60)
    ahead = align(pairs, symmetrise="forward")
    back = align([(target, source) for source, target in pairs], symmetrise="backward")
    for one, other in zip(ahead, back, strict=True):
        np.testing.assert_array_equal(one, sorted(other[:, ::-1].tolist()))


def test_generated_words_have_at_most_one_link() -> None:
    pairs = [([0, 1, 2], [0])] * 5
    assert len(align(pairs, symmetrise="forward", agree=False)[0]) == 1
    assert len(align(pairs, symmetrise="backward", agree=False)[0]) == 3


def test_posteriors_sum_to_at_most_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitext, "CHUNK", 60)
    pairs = toy(30)
    aligner = Aligner(pairs)
    aligner.train("hmm")
    for number in (0, 17, 29):
        forward, backward = aligner.posteriors(number)
        assert forward.shape == backward.shape == (len(pairs[number][0]), len(pairs[number][1]))
        assert (forward.sum(axis=0) <= 1 + 1e-9).all() and (backward.sum(axis=1) <= 1 + 1e-9).all()
    with pytest.raises(SeqloomError, match="Pair 2 cannot be aligned"):
        Aligner([([1], [2]), ([], [2])]).posteriors(1)


def test_iterations_are_reported_and_progress_counts_pairs() -> None:
    rounds: list[Round] = []
    aligner, seen = Aligner(toy(20)), []
    aligner.train("hmm", iterations=2, on_round=rounds.append, on_progress=seen.append)
    aligner.links("union", on_progress=seen.append)
    assert [str(one).split(":")[0] for one in rounds] == ["diagonal 1", "diagonal 2", "hmm 1", "hmm 2"]
    assert sum(seen) == 20 * passes("hmm", 2)


def test_unknown_names_are_errors() -> None:
    with pytest.raises(SeqloomError, match="no alignment model called 'imb1'"):
        check_names("imb1", "union")
    with pytest.raises(SeqloomError, match="no symmetrisation called 'grow'"):
        align([], symmetrise="grow")  # type: ignore[arg-type]


def test_lexicons_contain_the_translations() -> None:
    aligner = Aligner(toy())
    aligner.train("hmm")
    forward, backward = aligner.lexicons()
    assert [row[0] - 100 for row in forward.best(1)] == list(range(30))
    assert [row[0] for row in backward.best(1)[100:]] == list(range(30))
