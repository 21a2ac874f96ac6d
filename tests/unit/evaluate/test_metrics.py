from __future__ import annotations

import json

import pytest

from seqloom import __version__
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import METRICS, Score, evaluate, parse_metrics
from support.commands import run_python

HYPOTHESES = ["HH AH0 L OW1", "W ER1 L D", "K AE1 T", ""]
REFERENCES = [["HH AH0 L OW1", "HH EH0 L OW1"], ["W ER1 L T"], ["K AE1 T S"], ["AH0"]]


def value(metric: str) -> float:
    return evaluate(HYPOTHESES, REFERENCES, metric, bootstrap=0)[0].value


@pytest.mark.parametrize(
    "wrong", ["  x = 1\n    y", "    x = 1\n  y", "    x  = 1\n    y", "    x = 1 y", "    x = 1\n    y "]
)
def test_white_space_matters_only_in_exact_raw(wrong: str) -> None:
    code = "    x = 1\n    y"
    for guess, expected in ((code, 100), (wrong, 0)):
        [plain, raw] = evaluate([guess], [["z", code]], "exact,exact:raw", bootstrap=0)
        assert (plain.value, raw.value) == (100, expected)
    assert raw.signature.startswith("exact:raw|nrefs:2|case:mixed|space:raw|refs:any|")


def test_exact_match_counts_any_reference_and_error_is_its_complement() -> None:
    assert value("exact") == 25
    assert value("error") == 75
    assert evaluate(["b"], [["a", "b"]], "exact", bootstrap=0)[0].value == 100


def test_white_space_is_not_an_error() -> None:
    for metric in ("exact", "per", "cer"):
        (score,) = evaluate([" a  b\t"], [["a b"]], metric, bootstrap=0)
        assert score.value == (100 if metric == "exact" else 0)


def test_case_is_an_error() -> None:
    assert evaluate(["A"], [["a"]], "exact", bootstrap=0)[0].value == 0


def test_per_is_edits_over_reference_tokens() -> None:
    assert value("per") == pytest.approx(100 * (0 + 1 + 1 + 1) / (4 + 4 + 4 + 1))
    assert value("wer") == value("per")


def test_cer_counts_characters_and_the_spaces_between_words() -> None:
    assert evaluate(["ab c"], [["ab d"]], "cer", bootstrap=0)[0].value == 25


def test_the_error_rate_uses_the_nearest_reference_and_the_shorter_of_two() -> None:
    near = evaluate(["a b c"], [["x y z", "a b"]], "per", bootstrap=0)[0]
    assert near.value == 50
    for answers in (["a b", "a b c d"], ["a b c d", "a b"]):
        assert evaluate(["a b c"], [answers], "per", bootstrap=0)[0].value == 50


def test_error_rate_without_any_reference_token() -> None:
    assert evaluate([""], [[""]], "per")[0].value == 0
    assert evaluate(["a"], [[""]], "per")[0].value == 100


def test_perfect_outputs_get_perfect_scores() -> None:
    lines = ["Two dogs run in the park .", "A man sleeps on a red sofa ."]
    for name in METRICS:
        if name == "nmse":  # of arrays
            continue
        (score,) = evaluate(lines, [[line] for line in lines], name)
        if name.startswith("distinct"):  # depends on the outputs alone
            continue
        assert score.value == pytest.approx(100 if score.higher_is_better else 0)
        if name != "macro-f1":  # has no interval
            assert (score.low, score.high) == pytest.approx((score.value, score.value))


def test_a_plain_string_is_one_reference() -> None:
    plain, wrapped = evaluate(["a b"], ["a b"], "exact")[0], evaluate(["a b"], [["a b"]], "exact")[0]
    assert plain == wrapped
    assert plain.value == 100


def test_scores_are_deterministic_and_the_seed_moves_only_the_interval() -> None:
    hypotheses, references = HYPOTHESES * 10, REFERENCES * 10
    first, again = (evaluate(hypotheses, references, "per")[0] for _ in range(2))
    other = evaluate(hypotheses, references, "per", seed=1)[0]
    assert first == again
    assert other.value == first.value
    assert (other.low, other.high) != (first.low, first.high)


def test_every_metric_declares_its_direction() -> None:
    down = {metric.name for metric in parse_metrics(",".join(METRICS)) if not metric.higher_is_better}
    assert down == {"ter", "error", "per", "wer", "cer", "nmse"}


def test_signatures_name_the_settings() -> None:
    per, bleu = evaluate(["a b"], [["a b"]], "per,bleu:intl", bootstrap=50, seed=7)
    assert per.signature == f"per|nrefs:1|bs:50|seed:7|tok:space|refs:nearest|version:seqloom-{__version__}"
    assert bleu.signature.startswith(
        "bleu:intl|nrefs:1|bs:50|seed:7|case:mixed|eff:no|tok:intl|smooth:exp|version:"
    )
    assert bleu.signature.endswith(f"|seqloom:{__version__}")


def test_signatures_without_bootstrap_do_not_mention_it() -> None:
    for score in evaluate(HYPOTHESES, REFERENCES, "per,exact,chrf", bootstrap=0):
        assert "bs:" not in score.signature
        assert "seed:" not in score.signature
        assert "nrefs:var" in score.signature


def test_a_score_as_text_and_json() -> None:
    score = Score("bleu", 35.21, 33.94, 36.56, "bleu|nrefs:1", 1000, True, "BLEU")
    assert str(score) == "BLEU 35.2 [33.9, 36.6]"
    assert json.loads(json.dumps(score.as_dict()))["high"] == 36.56
    without = evaluate(["a"], ["a"], "exact", bootstrap=0)[0]
    assert str(without) == "exact 100.0"
    assert json.loads(json.dumps(without.as_dict()))["low"] is None


def test_parse_keeps_order_drops_duplicates_and_ignores_case_and_spaces() -> None:
    assert [metric.name for metric in parse_metrics(" exact, BLEU,chrF++ ,bleu,")] == [
        "exact",
        "bleu",
        "chrf++",
    ]


@pytest.mark.parametrize(
    "wrong, hint", [("blue", "did you mean 'bleu'?"), ("bleu:zhh", "'bleu:zh'"), ("zzz", "chrf++")]
)
def test_an_unknown_metric_is_an_error_that_suggests_the_nearest(wrong: str, hint: str) -> None:
    with pytest.raises(SeqloomError, match=f"no metric called '{wrong}'") as caught:
        parse_metrics(f"exact,{wrong}")
    assert hint in caught.value.hint


def test_no_metric_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="No metric"):
        parse_metrics(" , ")


def test_different_counts_are_both_reported() -> None:
    with pytest.raises(SeqloomError, match="2 hypotheses but references for 1 sentences"):
        evaluate(["a", "b"], [["a"]], "exact")


def test_nothing_to_evaluate_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="Nothing to evaluate"):
        evaluate([], [], "exact")


def test_a_sentence_without_reference_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="Sentence 2 has no reference"):
        evaluate(["a", "b"], [["a"], []], "exact")


def test_a_negative_bootstrap_is_an_error() -> None:
    with pytest.raises(SeqloomError, match=r"bootstrap samples .*got -1"):
        evaluate(["a"], [["a"]], "exact", bootstrap=-1)


def test_works_without_rapidfuzz_and_without_torch() -> None:
    code = """
import sys
sys.modules["rapidfuzz"] = None
from seqloom.evaluate import edits, report
assert edits.edit_distance is edits.plain_edit_distance
assert report.evaluate(["a b"], [["a c"]], "per")[0].value == 50
assert "torch" not in sys.modules
"""
    run_python(code)
