from __future__ import annotations

from random import Random

import pytest
from rouge_score.rouge_scorer import RougeScorer

from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import evaluate, sentence_metric
from seqloom.evaluate.rouge import common_subsequence
from seqloom.evaluate.significance import compare

WORDS = ("Return", "the", "number", "of", "lines,", "the", "file", "x_1", "don't", "Ångström", "3.5", "--")


def texts(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(0, 12)))


@pytest.mark.parametrize("references", [1, 3])
def test_rouge_equals_rouge_score(references: int) -> None:
    random = Random(1)
    names = {"rouge1": "rouge1", "rouge2": "rouge2", "rougel": "rougeL"}
    scorer = RougeScorer(list(names.values()), use_stemmer=False)
    hypotheses = [texts(random) for _ in range(60)]
    expected = [[texts(random) for _ in range(references)] for _ in hypotheses]
    for name, theirs in names.items():
        pairs = zip(hypotheses, expected, strict=True)
        values = [scorer.score_multi(given, text)[theirs].fmeasure for text, given in pairs]
        (score,) = evaluate(hypotheses, expected, name, bootstrap=0)
        assert score.value == pytest.approx(100 * sum(values) / len(values))
        assert 5 < score.value < 95


def test_the_subsequence_may_have_gaps_but_keeps_the_order() -> None:
    assert common_subsequence(["a", "x", "b", "y", "c"], ["c", "a", "b", "c"]) == 3
    assert common_subsequence([], ["a"]) == 0


def test_distinct_counts_an_ngram_once_in_all_outputs() -> None:
    outputs = ["yes I can", "yes I can", "no"]
    one, two = evaluate(outputs, [["?"]] * 3, "distinct1,distinct2")
    assert one.value == pytest.approx(100 * len({"yes", "I", "can", "no"}) / 7)
    assert two.value == pytest.approx(100 * 2 / 4)
    assert (one.low, one.high) == (None, None) and "bs:" not in one.signature
    assert evaluate(["", "a"], [["?"]] * 2, "distinct2")[0].value == 0


def test_distinct_has_no_test_of_significance() -> None:
    with pytest.raises(SeqloomError, match="distinct1"):
        sentence_metric("distinct1")
    with pytest.raises(SeqloomError, match="distinct2"):
        compare(["a"], ["b"], [["a"]], "distinct2")
