"""Decoding strategies over any translator: their requests, and their ranking of the outputs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.pipeline import Progress
from seqloom.decode.strategies import STRATEGIES, make_strategy
from seqloom.decode.translator import Outputs, Translator
from seqloom.errors import SeqloomError
from seqloom.types import Hypothesis, Request


class Fixed(Translator):
    """Translator that returns fixed candidates and records its calls."""

    engine, description, alternative = "fixed", "A fixed list", "ask for less"
    capabilities = frozenset({"nbest", "sampling", "exact"})  # type: ignore[assignment]

    def __init__(self, *found: Hypothesis) -> None:
        super().__init__(SearchConfig())
        self.found, self.searches, self.samplings = found, list[SearchConfig](), list[SamplingConfig]()

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        self.searches.append(search)
        return [list(self.found[: search.nbest]) for _ in requests]

    def _sample(self, requests: list[Request], options: SamplingConfig, *, on_progress: Progress) -> Outputs:
        self.samplings.append(options)
        return [list(self.found[: options.samples]) for _ in requests]

    def _exact(self, requests: list[Request], expand: int, *, on_progress: Progress) -> Outputs:
        return [list(self.found[:1]) for _ in requests]


def candidate(text: str, log_prob: float, tokens: int = 2) -> Hypothesis:
    return Hypothesis(text, log_prob, log_prob, token_log_probs=(log_prob / tokens,) * tokens)


FOUND = (candidate("a b", -6.0), candidate("a c", -8.0, tokens=4), candidate("a b", -6.0), candidate("d", -9.0))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_gives_outputs_for_every_line(name: str) -> None:
    translator = Fixed(*FOUND)
    outputs = make_strategy(name, {}).translate(translator, ["x", Request("y")])
    assert [len(many) for many in outputs] == [1, 1]
    assert make_strategy(name, {}).needs <= translator.capabilities


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_option_without_effect_is_refused(name: str) -> None:
    strategy = make_strategy(name, {})
    for option in SearchConfig.model_fields:
        if option in strategy.search_options:
            strategy.check_options({option: 1})
        else:
            with pytest.raises(SeqloomError, match=rf"search\.{option} has no effect with the strategy {name}"):
                strategy.check_options({option: 1})
    with pytest.raises(SeqloomError, match=r"There is no option strategy\.smaples"):
        make_strategy(name, {"smaples": 3})


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        *((name, {}, 1) for name in STRATEGIES),
        ("beam", {"nbest": 2}, 2),
        ("sample", {"samples": 3}, 3),
        ("mbr", {"nbest": 2}, 2),
        ("best-of", {"nbest": 2}, 2),
    ],
)
def test_the_number_of_outputs_per_line_is_known(name: str, options: dict[str, int], expected: int) -> None:
    strategy, translator = make_strategy(name, options), Fixed(*FOUND)
    search = translator.with_search(strategy.search_changes).search
    assert strategy.outputs_per_line(search) == expected
    assert len(strategy.translate(translator, ["x"])[0]) == expected


def test_beam_search_passes_on_its_options() -> None:
    translator = Fixed(*FOUND)
    make_strategy("beam", {"beam": 7, "nbest": 2}).translate(translator, ["x"])
    assert [(search.beam, search.nbest) for search in translator.searches] == [(7, 2)]


def test_samples_keep_the_order_in_which_they_are_drawn() -> None:
    (found,) = make_strategy("sample", {"samples": 3}).translate(Fixed(*FOUND), ["x"])
    assert [one.text for one in found] == ["a b", "a c", "a b"]
    with pytest.raises(SeqloomError, match="does not support alignments"):
        make_strategy("sample", {}).translate(Fixed(*FOUND), ["x"], alignment=True)


@pytest.mark.parametrize("options", [{}, {"beam": 4}])
def test_minimum_bayes_risk_prefers_the_most_similar_candidate(options: dict[str, Any]) -> None:
    translator = Fixed(*FOUND)
    (found,) = make_strategy("mbr", {"nbest": 3, **options}).translate(translator, ["x"])
    assert found[0].text == "a b" and found[-1].text == "d"
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert bool(translator.searches) == bool(options) != bool(translator.samplings)


def test_best_of_ranks_distinct_samples_by_the_mean_log_probability() -> None:
    (found,) = make_strategy("best-of", {"nbest": 5}).translate(Fixed(*FOUND), ["x"])
    assert [one.text for one in found] == ["a c", "a b", "d"]  # -2, -3 and -4.5 per token
    (drawn,) = make_strategy("best-of", {"samples": 1}).translate(Fixed(*FOUND), ["x"])
    assert [one.text for one in drawn] == ["a b"]


def test_a_line_without_a_possible_output_keeps_its_place() -> None:
    for name in STRATEGIES:
        ((only,),) = make_strategy(name, {}).translate(Fixed(), ["x"])
        assert (only.text, only.flags, only.log_prob) == ("", ("impossible",), -math.inf)
