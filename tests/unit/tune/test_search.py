"""Search options compared on validation data: the same outputs as separate searches, and the rule of choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seqloom.data import testset
from seqloom.decode.config import SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import parse_metrics
from seqloom.evaluate.significance import compare
from seqloom.tune.choice import Measured, best_of, choose, measure
from seqloom.tune.lists import norms_of, penalties_of, sizes_of
from seqloom.tune.search import Decoded, Setting, can_rank_again, decode_all, grid, searches_needed
from seqloom.types import Request
from support.step_models import TableModel
from support.tokenizers import char_tokenizers

LINES = ["abc", "", "bca", "cab", "dd"]
DATA = testset.TestSet("lines", LINES, [["x"]] * len(LINES), [None] * len(LINES))


def random_translator(seed: int, options: dict[str, Any]) -> TorchTranslator:
    """Return a translator of random distributions, whose searches end with more hypotheses than the beam."""
    tokenizers = char_tokenizers("abcd", "wxyz")
    size = tokenizers.target.size
    model = TableModel.random(size, 8, size, size, seed=seed)
    search = SearchConfig.checked({"beam": 4, "longest": 8, **options}, "search")
    return TorchTranslator(model, tokenizers, search)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [{}, {"stop": "length"}, {"word_reward": 0.7}, {"groups": 2}, {"stop": "hopeless"}, {"stop": "ahead"}],
    ids=str,
)
def test_every_setting_has_the_outputs_of_its_own_search(seed: int, options: dict[str, Any]) -> None:
    translator = random_translator(seed, options)
    settings = grid(translator.search, beams=[2, 4, 8], penalties=[0, 0.5, 1, 3])
    counted: list[int] = []
    found = list(decode_all(translator, DATA, settings, on_progress=counted.append))
    assert [one.setting for one in found] == settings
    assert sum(counted) == len(LINES) * searches_needed(translator.search, settings)
    for one in found:
        alone = translator.with_search(one.setting.options()).translate(LINES)
        assert list(one.texts) == [many[0].text for many in alone], one.setting
        assert one.sentences_per_second > 0
    assert len({one.texts for one in found}) > 3  # the settings make a difference


def test_candidates_are_all_hypotheses_that_a_search_ends_with() -> None:
    translator = random_translator(1, {"stop": "length"})
    found = translator.candidates([Request(line) for line in LINES], on_progress=lambda count: None)
    assert max(map(len, found)) > translator.search.beam
    best = translator.translate(LINES, nbest=4)
    assert [many[:4] for many in found if many[0].text] == [
        [replace(one, flags=()) for one in many] for many in best if many[0].text
    ]


def test_ranking_again_is_used_only_where_it_is_exact() -> None:
    def search(**options: object) -> SearchConfig:
        return SearchConfig.checked(options, "search")

    assert can_rank_again(search()) and can_rank_again(search(stop="length", word_reward=1))
    for options in ({"stop": "ahead"}, {"stop": "hopeless"}, {"coverage_penalty": 0.2}):
        assert not can_rank_again(search(**options))
    settings = [Setting(2, "length", 1.0), Setting(2, "gnmt", 1.0), Setting(3, "length", 1.0)]
    assert searches_needed(search(), settings) == 2
    assert searches_needed(search(stop="ahead"), settings) == 3


def test_the_grid_has_no_two_settings_with_equal_outputs() -> None:
    search = SearchConfig.checked({"beam": 5, "length_norm": "none"}, "search")
    found = grid(search, beams=[1, 5], penalties=[0, 1])
    assert found == sorted(
        [Setting(1, "none", 1.0), Setting(5, "none", 1.0), Setting(5, "length", 1.0), Setting(5, "gnmt", 1.0)]
    )
    current = SearchConfig.checked({"beam": 7, "length_penalty": 0.35}, "search")
    assert Setting(7, "length", 0.35) in grid(current, beams=[2])


def test_default_beams_fit_the_other_options_of_the_run() -> None:
    assert {one.beam for one in grid(SearchConfig.checked({"nbest": 3}, "search"))} == {3, 5, 8}
    assert {one.beam for one in grid(SearchConfig.checked({"beam": 4, "groups": 2}, "search"))} == {2, 4, 8}


def test_the_noise_is_that_of_the_paired_comparison() -> None:
    draw = np.random.default_rng(1)
    words = ["a b c d e", "f g h i j", "k l m n o p", "q r s t u"]
    references = [words[number % 4] for number in range(60)]
    systems = [
        tuple(text if draw.random() < right else text[:-2] for text in references) for right in (0.9, 0.8)
    ]
    (metric,) = parse_metrics("bleu")
    decoded = [Decoded(Setting(5 - 4 * i, "length", 1.0), texts, 10.0) for i, texts in enumerate(systems)]
    measured = measure(decoded, references, metric)
    other = compare(list(systems[1]), list(systems[0]), references, "bleu")
    assert best_of(measured) == measured[0]
    assert [one.score.value for one in measured] == [other.b, other.a]
    assert measured[0].below_best == measured[0].standard_error == 0
    assert measured[1].below_best == pytest.approx(other.delta)
    # The 95 % interval of the same differences is about 4 standard errors wide.
    assert measured[1].standard_error == pytest.approx((other.high - other.low) / 4, rel=0.15)


def _measured(beam: int, norm: str, value: float, error: float) -> Measured:
    (metric,) = parse_metrics("per")  # lower is better
    setting = Setting(beam, norm, 1.0)  # type: ignore[arg-type]
    score = measure([Decoded(setting, ("a",), 1.0)], [["a"]], metric)[0].score
    return Measured(setting, score, 1.0, value, error)


def test_a_cheaper_setting_wins_within_the_noise_only() -> None:
    best, near, far = (
        _measured(8, "gnmt", 0.0, 0.0),
        _measured(3, "gnmt", 0.2, 0.3),
        _measured(1, "length", 0.4, 0.3),
    )
    assert choose([far, near, best]) == near
    same_beam = [_measured(3, "length", 0.25, 0.3), _measured(3, "length", 0.3, 0.3)]
    assert choose([far, near, best, *same_beam]) == same_beam[0]
    assert choose([best, far]) == best


def test_an_error_rate_is_better_if_it_is_lower() -> None:
    (metric,) = parse_metrics("per")
    systems = [
        Decoded(Setting(1, "length", 1.0), ("a b", "c"), 1.0),
        Decoded(Setting(2, "length", 1.0), ("x b", "c"), 1.0),
    ]
    measured = measure(systems, [["a b"], ["c"]], metric)
    assert best_of(measured).setting.beam == 1
    assert measured[1].below_best == pytest.approx(100 / 3)


def test_lists_on_the_command_line() -> None:
    assert sizes_of(None) == [] and sizes_of("1, 4") == [1, 4]
    assert penalties_of("0.5,2") == [0.5, 2.0] and norms_of("gnmt,none") == ["gnmt", "none"]


@pytest.mark.parametrize(
    ("convert", "text", "message"),
    [
        (sizes_of, "1;4", r"search\.beam"),
        (sizes_of, "0", r"search\.beam"),
        (sizes_of, ",", r"search\.beam"),
        (penalties_of, "-1", r"search\.length_penalty"),
        (penalties_of, "nan", r"search\.length_penalty"),
        (norms_of, "gmnt", "length norm called 'gmnt'"),
    ],
)
def test_a_wrong_list_is_an_error(convert: object, text: str, message: str) -> None:
    assert callable(convert)
    with pytest.raises(SeqloomError, match=message):
        convert(text)
