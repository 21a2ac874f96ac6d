"""Scores against sacreBLEU's corpus scores, and error rates against a brute-force edit distance."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seqloom.evaluate.edits import edit_distance, plain_edit_distance
from seqloom.evaluate.metrics import evaluate, parse_metrics

ORACLES: dict[str, Callable[[], BLEU | CHRF | TER]] = {
    "bleu": BLEU,
    "bleu:13a": lambda: BLEU(tokenize="13a"),
    "bleu:none": lambda: BLEU(tokenize="none"),
    "bleu:char": lambda: BLEU(tokenize="char"),
    "bleu:intl": lambda: BLEU(tokenize="intl"),
    "bleu:zh": lambda: BLEU(tokenize="zh"),
    "chrf": CHRF,
    "chrf++": lambda: CHRF(word_order=2),
    "ter": TER,
}
WORDS = ["ein", "Mann,", "zwei", "Hunde;", "(rote)", "Bälle:", "»Ach«", "—", "it's", "3.5", "%", "of", "1,000"]
WORDS += ["U.S.", "words.", "你好", "世界!", "&quot;x&quot;"]
REAL = [
    (
        "A man in a blue shirt is standing on a ladder.",
        ["A man in a blue shirt stands on a ladder cleaning a window."],
    ),
    (
        "Two young, White males are outside near bushes.",
        ["Two young, White males are outside near many bushes."],
    ),
    ("", ["Nothing came out, so it cannot match."]),
    ("Someone wrote this for no reason", [""]),
    (
        "The U.S. team won 3-2 (after extra time)!",
        ["The US team won 3–2 after extra time.", "The U.S. side won 3-2!"],
    ),
    ("  spaces   everywhere  ", ["spaces everywhere"]),
    ("我们 在这里。", ["我们在 这里。", "我們在這裡。"]),
]


def noisy(line: str, rng: random.Random) -> str:
    words = [rng.choice(WORDS) if rng.random() < 0.3 else word for word in line.split()]
    if rng.random() < 0.3:
        rng.shuffle(words)
    return " ".join(words[: rng.randint(0, len(words) + 3)])


def corpus(seed: int, most_references: int) -> tuple[list[str], list[list[str]]]:
    rng = random.Random(seed)
    references = [
        [" ".join(rng.choices(WORDS, k=rng.randint(1, 15))) for _ in range(rng.randint(1, most_references))]
        for _ in range(40)
    ]
    return [noisy(rng.choice(answers), rng) for answers in references], references


def streams(references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """Return references in sacreBLEU's layout: one list per set, with None where a sentence has fewer."""
    widest = max(map(len, references))
    return [[answers[i] if i < len(answers) else None for answers in references] for i in range(widest)]


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("most_references", [1, 4])
def test_scores_equal_sacrebleu_on_random_lines(name: str, most_references: int) -> None:
    for seed in range(3):
        hypotheses, references = corpus(seed, most_references)
        oracle = ORACLES[name]()
        expected = oracle.corpus_score(hypotheses, streams(references))  # type: ignore[arg-type]
        (score,) = evaluate(hypotheses, references, name, bootstrap=0)
        assert score.value == pytest.approx(expected.score, rel=1e-12)
        assert score.value > 0
        assert str(oracle.get_signature()) in score.signature


@pytest.mark.parametrize("name", ORACLES)
def test_scores_equal_sacrebleu_on_real_lines(name: str) -> None:
    hypotheses, references = [guess for guess, _ in REAL], [answers for _, answers in REAL]
    expected = ORACLES[name]().corpus_score(hypotheses, streams(references)).score  # type: ignore[arg-type]
    (score,) = evaluate(hypotheses, references, name, bootstrap=0)
    assert score.value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ORACLES)
def test_sentence_scores_equal_sacrebleu(name: str) -> None:
    for guess, answers in REAL:
        expected = ORACLES[name]().corpus_score([guess], [[answer] for answer in answers]).score
        assert evaluate([guess], [answers], name, bootstrap=0)[0].value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_the_interval_is_close_to_that_of_sacrebleu(name: str) -> None:
    hypotheses, references = corpus(5, 2)
    oracle = ORACLES[name]().corpus_score(hypotheses, streams(references), n_bootstrap=1000)  # type: ignore[arg-type]
    (score,) = evaluate(hypotheses, references, name)
    assert score.low is not None
    assert score.high is not None
    # Different random numbers, the same distribution: half-widths agree to the noise of 1000 samples.
    assert (score.high - score.low) / 2 == pytest.approx(oracle._ci, rel=0.15)


def brute_force_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the edit distance by its recursive definition."""

    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        kept = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, kept)

    return distance(len(a), len(b))


@pytest.mark.parametrize("function", [edit_distance, plain_edit_distance], ids=["chosen", "plain"])
def test_edit_distances_equal_brute_force(function: Callable[[Sequence[str], Sequence[str]], int]) -> None:
    rng = random.Random(1)
    for _ in range(300):
        a, b = (rng.choices(["AH0", "AH1", "K", "é", "你好"], k=rng.randint(0, 9)) for _ in range(2))
        assert function(a, b) == brute_force_distance(a, b)
        assert function("".join(a), "".join(b)) == brute_force_distance("".join(a), "".join(b))


@pytest.mark.parametrize("name", ["per", "wer", "cer"])
def test_error_rates_equal_brute_force(name: str) -> None:
    hypotheses, references = corpus(2, 3)
    edits = length = 0
    for guess, answers in zip(hypotheses, references, strict=True):
        cut = (lambda text: list(text)) if name == "cer" else str.split
        nearest = min((brute_force_distance(cut(guess), cut(answer)), len(cut(answer))) for answer in answers)
        edits, length = edits + nearest[0], length + nearest[1]
    assert evaluate(hypotheses, references, name)[0].value == pytest.approx(100 * edits / length)


def test_the_interval_shrinks_as_one_over_the_root_of_n() -> None:
    hypotheses, references = corpus(3, 1)
    small, large = (evaluate(hypotheses * times, references * times, "per")[0] for times in (1, 16))
    for score in (small, large):
        assert score.low is not None
        assert score.high is not None
        assert score.low < score.value < score.high
    assert (large.high - large.low) == pytest.approx((small.high - small.low) / 4, rel=0.2)  # type: ignore[operator]


def test_the_interval_of_a_proportion_is_the_binomial_one() -> None:
    right = [True] * 300 + [False] * 700
    hypotheses = ["x" if good else "y" for good in right]
    (score,) = evaluate(hypotheses, [["x"]] * 1000, "exact", bootstrap=4000)
    half = 100 * 1.96 * (0.3 * 0.7 / 1000) ** 0.5
    assert score.value == pytest.approx(30)
    assert score.low == pytest.approx(30 - half, abs=0.3)
    assert score.high == pytest.approx(30 + half, abs=0.3)


def test_a_score_depends_only_on_the_sum_of_statistics() -> None:
    hypotheses, references = corpus(4, 2)
    for metric in parse_metrics(",".join([*ORACLES, "exact", "error", "per", "cer"])):
        whole = evaluate(hypotheses, references, [metric], bootstrap=0)[0].value
        backwards = evaluate(hypotheses[::-1], references[::-1], [metric], bootstrap=0)[0].value
        assert whole == pytest.approx(backwards, rel=1e-12)
