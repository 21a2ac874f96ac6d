"""Tests of phrase-based translation: workers, unknown words, alignment and unsupported options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.errors import SeqloomError
from seqloom.statistical.phrase.model import PhraseModel
from seqloom.statistical.phrase.translator import PhraseTranslator
from seqloom.types import Request

Fitted = tuple[PhraseModel, Any, dict[str, float]]


@pytest.fixture
def translator(learned: Fitted) -> PhraseTranslator:
    model, data, _ = learned
    return model.translator(data.tokenizers, SearchConfig(), workers=1, length_ratio=None)


def test_outputs_do_not_depend_on_workers(
    learned: Fitted, translator: PhraseTranslator, pairs: Callable[..., Any]
) -> None:
    model, data, _ = learned
    lines = [source for source, _ in pairs(5, 17)] + ["", "a zebra sees ."]
    three = model.translator(data.tokenizers, SearchConfig(), workers=3, length_ratio=None)
    heard: list[int] = []
    alone = translator.translate(lines, nbest=4, on_progress=heard.append)
    assert three.translate(lines, nbest=4) == alone
    assert sum(heard) == len(lines)
    assert [len(answers) for answers in alone[-2:]] == [1, 4]
    assert alone[-2][0].text == ""


def test_unknown_words_are_copied(translator: PhraseTranslator) -> None:
    (best,), (alone,) = translator.translate(["the red Zebra-42 sees the cat .", "Õ ⁇ 7"])
    assert "Zebra-42" in best.text.split() and "Zebra-42" in best.tokens
    assert alone.text == "Õ ⁇ 7"


def test_nbest_is_sorted_without_duplicates(translator: PhraseTranslator) -> None:
    (found,) = translator.translate(["the red cat sees the old tree ."], nbest=8)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert len({one.text for one in found}) == len(found) == 8


def test_alignment_weights_come_from_phrase_links(translator: PhraseTranslator) -> None:
    ((best,),) = translator.translate(["the red cat sees the dog ."], alignment=True)
    assert best.source_tokens == ("the", "red", "cat", "sees", "the", "dog", ".")
    assert best.tokens == ("le", "chat", "rouge", "voit", "le", "chien", ".")
    assert [len(row) for row in best.alignment] == [8] * 8  # including EOS
    assert all(sum(row) == pytest.approx(1.0) for row in best.alignment)
    strongest = [row.index(max(row)) for row in best.alignment]
    assert strongest[:4] == [0, 2, 1, 3] and strongest[5:] == [5, 6, 7]


def test_beam_of_one(translator: PhraseTranslator) -> None:
    ((narrow,),) = translator.translate(["the red cat sees the dog ."], beam=1)
    ((wide,),) = translator.translate(["the red cat sees the dog ."], beam=500)
    assert narrow.score <= wide.score + 1e-9


def test_beam_grows_with_the_nbest_size(translator: PhraseTranslator) -> None:
    assert translator.search.beam == 60
    assert translator.with_search({"beam": 7}).search.beam == 7
    assert translator.with_search({"nbest": 80}).search.beam == 80
    with pytest.raises(SeqloomError, match=r"search\.beam"):
        translator.with_search({"beam": -5})


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("the cat", prefix="le"), "does not support prefixes"),
        (Request("the cat", tree=(2, 0)), "does not support dependency trees"),
        (Request("the cat", required=("chat",)), "does not support required words"),
    ],
)
def test_unsupported_requests_are_errors(translator: PhraseTranslator, request_: Request, message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        translator.translate([request_])
    with pytest.raises(SeqloomError, match="does not support sampling"):
        translator.sample(["the cat"], SamplingConfig())
    with pytest.raises(SeqloomError, match=r"does not support search\.no_repeat=2"):
        translator.with_search({"no_repeat": 2}).translate(["the cat"])
