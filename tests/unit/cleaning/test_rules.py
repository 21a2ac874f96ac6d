"""Every rule on pairs whose verdict is known."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from seqloom.cleaning.alignment import Alignment
from seqloom.cleaning.duplicates import Duplicates, Identical, normalised
from seqloom.cleaning.information import InformationRule
from seqloom.cleaning.language import LanguageRule, load_identifier
from seqloom.cleaning.length_ratio import LengthRatio
from seqloom.cleaning.model_score import ModelScore
from seqloom.cleaning.rule import CleaningRule, Pair, Progress
from seqloom.cleaning.script import Script, script_of
from seqloom.errors import SeqloomError


def dropped(rule: CleaningRule, pairs: Sequence[Pair]) -> list[int]:
    """The places of the pairs to which the rule objects; progress is complete."""
    seen: list[int] = []
    findings = rule.judge(pairs, seen.append)
    assert len(findings) == len(pairs)
    assert sum(seen) == rule.passes * len(pairs)
    assert all(finding is None or finding.reason for finding in findings)
    return [place for place, finding in enumerate(findings) if finding]


class TestDuplicates:
    def test_the_first_of_equal_pairs_stays_also_in_later_parts(self) -> None:
        rule = Duplicates(str, "")
        assert dropped(rule, [("a", "b"), ("a", "c"), ("a", "b")]) == [2]
        assert dropped(rule, [("d", "e"), ("a", "c"), ("d", "e"), ("A", "c")]) == [1, 2]

    def test_the_border_between_the_sides_counts(self) -> None:
        assert dropped(Duplicates(str, ""), [("ab", "c"), ("a", "bc"), ("", "abc")]) == []

    def test_many_pairs_agree_with_a_set(self) -> None:
        rule, seen = Duplicates(str, ""), set[Pair]()
        for part in range(20):
            pairs = [(str(part * i % 37), str(i % 5)) for i in range(100)]
            expected = []
            for place, pair in enumerate(pairs):
                if pair in seen:
                    expected.append(place)
                seen.add(pair)
            assert dropped(rule, pairs) == expected

    def test_near_duplicates_differ_only_in_form(self) -> None:
        pairs = [
            ("Go away!", "Geh weg, schön."),
            ("go  away", "geh weg schon"),
            ("ＧＯ away.", "GEH WEG SCHÖN"),
            ("Go away!", "Geht weg, schön."),
            ("Go away 2", "Geh weg, schön."),
        ]
        assert dropped(Duplicates(normalised, ""), pairs) == [1, 2]

    def test_texts_without_letters_stay_different(self) -> None:
        assert dropped(Duplicates(normalised, ""), [("?", "!"), ("!", "?"), ("?", "!")]) == [2]

    def test_vowel_signs_are_not_accents(self) -> None:
        assert normalised("कि") != normalised("की")
        assert normalised("é") == "e"

    def test_identical_sides(self) -> None:
        assert dropped(Identical(), [("Berlin", "berlin!"), ("Berlin", "Bern"), ("...", "...")]) == [0, 2]


class TestLengthRatio:
    SAMPLE: Sequence[Pair] = [("x" * n, "y" * 2 * n) for n in range(10, 60)]

    def test_the_typical_ratio_of_the_corpus_is_not_an_outlier(self) -> None:
        rule = LengthRatio(self.SAMPLE, None)
        assert rule.typical == 2
        assert rule.most == 2
        pairs = [("x" * 50, "y" * 100), ("x" * 50, "y" * 30), ("x" * 50, "y" * 215), ("x" * 50, "y" * 205)]
        assert dropped(rule, pairs) == [1, 2]

    def test_short_texts_may_differ_more(self) -> None:
        assert dropped(LengthRatio(self.SAMPLE, None), [("Hi", "Good day")]) == []

    def test_the_automatic_limit_grows_with_the_spread(self) -> None:
        sample = [("x" * 50, "y" * n) for n in range(10, 400, 10)]
        assert LengthRatio(sample, None).most > 4
        assert LengthRatio(sample, 1.5).most == 1.5


class TestScript:
    SAMPLE: Sequence[Pair] = [("Hello there", "Привет всем, как ваши дела сегодня? Tom")] * 10

    def test_other_scripts_are_dropped_and_texts_without_letters_are_not(self) -> None:
        pairs = [
            ("Good", "Хорошо"),
            ("Хорошо", "Хорошо"),
            ("Good", "Good"),
            ("42", "42!"),
            ("Café à la Ł", "Да"),
            ("Good", "Хорошо, OK"),
        ]
        assert dropped(Script(self.SAMPLE, 0.5), pairs) == [1, 2]

    def test_japanese_is_kana_and_han(self) -> None:
        rule = Script([("a", "これはひらがなです")] * 5, 0.5)
        assert dropped(rule, [("a", "東京"), ("a", "トーキョー"), ("a", "서울")]) == [2]

    @pytest.mark.parametrize(
        ("character", "script"),
        [
            ("a", "Latin"),
            ("ß", "Latin"),
            ("Ａ", "Latin"),
            ("я", "Cyrillic"),
            ("中", "Han"),
            ("1", ""),
            ("ª", ""),
        ],
    )
    def test_scripts_of_characters(self, character: str, script: str) -> None:
        assert script_of(character) == script


class FakeIdentifier:
    """Recognises texts by their first two letters."""

    def __init__(self) -> None:
        self.nb_classes = ["de", "en", "xx"]

    def rank(self, text: str) -> list[tuple[str, float]]:
        best = text[:2] if text[:2] in self.nb_classes else "xx"
        ranks = [(name, 0.99 if name == best else 0.005) for name in self.nb_classes]
        return sorted(ranks, key=lambda rank: -rank[1])


class TestLanguage:
    SAMPLE: Sequence[Pair] = [("en a", "de b")] * 4

    def test_the_most_frequent_languages_are_expected(self) -> None:
        rule = LanguageRule(self.SAMPLE, (None, None), 0.01, FakeIdentifier())
        assert rule.languages == ["en", "de"]
        assert dropped(rule, [("en a", "de b"), ("en a", "en b"), ("xx", "de"), ("en", "12")]) == [1, 2]

    def test_an_unclear_language_is_an_error(self) -> None:
        with pytest.raises(SeqloomError, match="source side is not clear") as caught:
            LanguageRule([("en", "de"), ("xx", "de")], (None, None), 0.01, FakeIdentifier())
        assert "--source-language" in caught.value.hint

    def test_an_unknown_language_is_an_error(self) -> None:
        with pytest.raises(SeqloomError, match="no language called 'dee'"):
            LanguageRule(self.SAMPLE, (None, "dee"), 0.01, FakeIdentifier())

    def test_a_missing_package_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "py3langid.langid", None)
        with pytest.raises(SeqloomError, match="py3langid") as caught:
            load_identifier()
        assert "seqloom[clean]" in caught.value.hint

    def test_real_languages(self) -> None:
        pytest.importorskip("py3langid")
        sample = [("A man is playing the guitar.", "Ein Mann spielt auf der Gitarre.")] * 3
        rule = LanguageRule(sample, (None, None), 0.01, load_identifier())
        pairs = [*sample[:1], ("Two dogs run in the snow.", "Two dogs run in the snow.")]
        assert dropped(rule, pairs) == [1]


class Given(InformationRule):
    """A rule whose scores are the sources."""

    unit, passes = "word", 1

    def scores(self, pairs: Sequence[Pair], on_progress: Progress) -> list[float]:
        on_progress(len(pairs))
        return [float(source) for source, _ in pairs]


class TestInformation:
    def test_the_limit_is_a_share_of_the_median(self) -> None:
        scores = ["2", "3", "4", "0.24", "0.26", "nan", "-1", "5", "3"]
        assert dropped(Given(0.1), [(score, "") for score in scores]) == [3, 6]

    def test_without_any_relation_all_pairs_stay(self) -> None:
        rule = Given(0.1)
        assert dropped(rule, [("-1", ""), ("-2", ""), ("3", ""), ("-1", "")]) == []
        assert len(rule.warnings) == 1


class TestAlignment:
    def test_a_wrong_translation_is_dropped(self) -> None:
        sources = [f"{i} {(i * 7) % 20} {(i * 3 + k) % 20}" for k in range(20) for i in range(20)]
        pairs = [(text, " ".join(f"{word}x" for word in text.split())) for text in dict.fromkeys(sources)]
        wrong = ("1 2 3", "17x 18x 19x")
        assert dropped(Alignment(pairs, 0.1, 1), [*pairs, wrong]) == [len(pairs)]

    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("Don't GO, überall!", ["don", "'", "t", "go", ",", "übera", "!"]),
            ("東京です", ["東", "京", "で", "す"]),
            ("हिन्दी", ["हिन्द"]),
            ("e\u0301cole", ["école"]),
        ],
    )
    def test_tokens(self, text: str, tokens: list[str]) -> None:
        assert Alignment([("a b", "a b")], 0.1, 1)._tokens(text, 0) == tokens

    def test_single_words_are_split_into_characters(self) -> None:
        rule = Alignment([("abc", "A B C")], 0.1, 1)
        assert [rule._tokens("ab c", side) for side in (0, 1)] == [["a", "b", "c"], ["ab", "c"]]

    def test_few_pairs_give_a_warning(self) -> None:
        rule = Alignment([("a", "b")], 0.1, 1)
        rule.judge([("a", "b")] * 3, lambda count: None)
        assert "too few" in rule.warnings[0]


class FakeScore(NamedTuple):
    log_prob: float
    log_probs: tuple[float, ...] = (0.0, 0.0)


class FakeScorer:
    """Targets are probable after the source that they repeat, and impossible if they begin with an x."""

    def score(self, pairs: Sequence[Pair], *, on_progress: Progress | None = None) -> list[FakeScore]:
        if on_progress:
            on_progress(len(pairs))
        return [FakeScore(self._log_prob(source, target)) for source, target in pairs]

    def _log_prob(self, source: str, target: str) -> float:
        if target.startswith("x"):
            return -math.inf
        return -2.0 if source == target else -10.0 - len(source)


class TestModelScore:
    SAMPLE: Sequence[Pair] = [(name, name) for name in ("a", "b", "cc", "dddd", "e", "f", "g")]

    def test_targets_of_other_sources_are_dropped(self) -> None:
        rule = ModelScore(self.SAMPLE, 0.1, FakeScorer())
        assert dropped(rule, [*self.SAMPLE, ("a", "q"), ("b", "x")]) == [7]

    def test_scores_compare_with_the_mean_probability_per_token(self) -> None:
        rule = ModelScore(self.SAMPLE, 0.1, FakeScorer())
        others = [math.exp(-10 - len(source)) for source in rule.other_sources("h")]
        [score] = rule.scores([("h", "h")], lambda count: None)
        assert score == pytest.approx((-2 - math.log(sum(others) / 4)) / 2)

    def test_the_other_sources_differ_and_are_always_the_same(self) -> None:
        rule = ModelScore(self.SAMPLE, 0.1, FakeScorer())
        for source, _ in self.SAMPLE:
            found = rule.other_sources(source)
            assert len({*found, source}) == 5
            assert found == rule.other_sources(source)
        assert len({tuple(rule.other_sources(source)) for source in "abcdefghijk"}) > 1

    def test_few_sources_are_an_error(self) -> None:
        with pytest.raises(SeqloomError, match="different sources"):
            ModelScore([("a", "b"), ("a", "c")], 0.1, FakeScorer())
