"""Equal results of CTranslate2's search and ours: lengths, ends, empty lines, order; unsupported requests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from seqloom.decode.config import SearchConfig
from seqloom.decode.scoring import ForcedScorer
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2 import translator as ctranslate2_engine
from seqloom.export.ctranslate2.convert import library, position_rows, write_model
from seqloom.export.ctranslate2.translator import CTranslate2Translator
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, Hypothesis, Request, Vocabularies

pytest.importorskip("ctranslate2")

DRAW = random.Random(1)
LINES = [" ".join(DRAW.choices("abcdefghijkl", k=DRAW.randint(1, 9))) for _ in range(40)]
PAIR = TokenizerPair.train(
    TextConfig(tokenizer="word", byte_fallback=False), lambda: ((line, line) for line in LINES)
)
Both = tuple[TorchTranslator, CTranslate2Translator]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Both]:
    """Return a function that builds our translator and CTranslate2's for a model with random weights."""

    def made(
        search: SearchConfig,
        *,
        end: float = 0.0,
        special: float = -30.0,
        positions: str = "sinusoidal",
        fallback: bool = False,
    ) -> Both:
        sizes = {"width": 16, "layers": 1, "heads": 2, "ffn": 24, "max_length": 20, "positions": positions}
        settings = TransformerSettings.checked(sizes, "model")
        torch.manual_seed(7)
        model = Transformer(settings, Vocabularies(PAIR.source.size, PAIR.target.size, True)).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.3 * torch.randn_like(weight))
            model.output.bias[[PAD, BOS]], model.output.bias[EOS] = special, end
        write_model(tmp_path, model, settings, PAIR)
        ours = TorchTranslator(model, PAIR, search)
        theirs = CTranslate2Translator(
            tmp_path,
            PAIR,
            search,
            positions=position_rows(settings),
            threads=2,
            fallback=(lambda: ours) if fallback else None,
        )
        return ours, theirs

    return made


def said(answers: list[list[Hypothesis]]) -> list[list[tuple[str, bool]]]:
    return [[(one.text, one.finished) for one in best] for best in answers]


@pytest.mark.parametrize("end", [-1.0, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("beam", [2, 5])
def test_without_a_length_penalty_the_best_outputs_are_equal(
    make: Callable[..., Both], end: float, beam: int
) -> None:
    search = SearchConfig(max_length_factor=1, max_length_extra=3, length_penalty=0, beam=beam)
    ours, theirs = make(search, end=end)
    assert not CTranslate2Translator.unsupported(search)
    assert said(theirs.translate(LINES)) == said(ours.translate(LINES))


def test_with_a_length_penalty_the_stop_rule_matters(make: Callable[..., Both]) -> None:
    search = SearchConfig(max_length_factor=1, max_length_extra=6, beam=3, nbest=3)
    ours, theirs = make(search, end=2.0)
    assert not CTranslate2Translator.unsupported(search)
    answers = theirs.translate(LINES)
    assert said(answers) == said(ours.translate(LINES))
    longer = search.model_copy(update={"stop": "ahead"})
    assert CTranslate2Translator.unsupported(longer)
    others = ours.translate(LINES, longer)
    assert said(answers) != said(others)
    assert all(b[0].score >= a[0].score - 1e-5 for a, b in zip(answers, others, strict=True))


@pytest.mark.parametrize("stop", ["ahead", "hopeless", "length"])
def test_some_stop_rules_matter_for_a_beam_of_one(make: Callable[..., Both], stop: str) -> None:
    search = SearchConfig(max_length_factor=1, max_length_extra=6, beam=1)
    ours, theirs = make(search, end=2.0)
    other = SearchConfig.model_validate({**search.model_dump(), "stop": stop})
    is_equal = said(ours.translate(LINES, other)) == said(theirs.translate(LINES))
    assert is_equal == (stop == "ahead")
    assert CTranslate2Translator.unsupported(other) == ([] if is_equal else ["stop"])


@pytest.mark.parametrize("special", [-3.0, 0.0, 3.0])
@pytest.mark.parametrize(("beam", "penalty"), [(2, 1.0), (3, 0.0), (5, 0.6)])
def test_pad_and_bos_take_no_slot_in_a_beam(
    make: Callable[..., Both], special: float, beam: int, penalty: float
) -> None:
    """Neither those in a hypothesis nor those that only push another hypothesis out of the beam."""
    search = SearchConfig(
        beam=beam, nbest=beam, length_penalty=penalty, max_length_factor=1, max_length_extra=9
    )
    ours, theirs = make(search, end=2.0, special=special, fallback=True)
    assert said(theirs.translate(LINES)) == said(ours.translate(LINES))


@pytest.mark.parametrize("end", [0.0, 2.0])
def test_without_a_length_penalty_n_best_lists_are_equal(make: Callable[..., Both], end: float) -> None:
    """CTranslate2 uses another stop rule if the penalty is 0."""
    search = SearchConfig(beam=4, nbest=4, length_penalty=0, max_length_factor=1, max_length_extra=9)
    ours, theirs = make(search, end=end)
    assert not CTranslate2Translator.unsupported(search)
    expected, outputs = ours.translate(LINES), theirs.translate(LINES)
    assert said(outputs) == said(expected)
    for mine, other in zip(chain(*expected), chain(*outputs), strict=True):
        assert other.score == pytest.approx(mine.score, abs=1e-4)


def test_searches_with_exact_results() -> None:
    assert not CTranslate2Translator.unsupported(SearchConfig(beam=1))
    assert not CTranslate2Translator.unsupported(SearchConfig(beam=4, length_penalty=0.6, nbest=2))
    assert not CTranslate2Translator.unsupported(SearchConfig(beam=4, length_penalty=0, stop="ahead"))
    assert CTranslate2Translator.unsupported(SearchConfig(beam=4, length_penalty=0, stop="ahead", nbest=2))
    assert CTranslate2Translator.unsupported(SearchConfig(beam=4, length_penalty=0.6, stop="hopeless"))
    for other in ({"no_repeat": 3}, {"forbid": "a"}, {"groups": 2}, {"length_norm": "gnmt"}, {"min_length": 2}):
        assert CTranslate2Translator.unsupported(SearchConfig.model_validate({"beam": 4, **other}))


@pytest.mark.parametrize("beam", [1, 3])
def test_every_line_is_truncated_at_its_own_length(make: Callable[..., Both], beam: int) -> None:
    search = SearchConfig(max_length_factor=2, max_length_extra=1, beam=beam, nbest=beam)
    ours, theirs = make(search, end=-1.0)
    expected = ours.translate(LINES)
    lengths = {len(one.tokens) for one in chain(*expected) if not one.finished}
    assert len(lengths) > 3  # lines of one batch have maximum lengths of their own
    answers = theirs.translate(LINES)
    assert said(answers) == said(expected)
    for mine, other in zip(chain(*expected), chain(*answers), strict=True):
        assert other.score == pytest.approx(mine.score, abs=1e-5)


def test_empty_lines_and_the_order_are_preserved(make: Callable[..., Both]) -> None:
    _, theirs = make(SearchConfig(beam=1, max_length_factor=1))
    lines = ["", LINES[0], "   ", LINES[1], LINES[0], ""]
    counted: list[int] = []
    answers = theirs.translate(lines, on_progress=counted.append)
    assert sum(counted) == len(lines)
    assert [best[0] for best in answers[::5]] == [Hypothesis(text="", score=0.0)] * 2
    assert answers[1][0].tokens == answers[4][0].tokens
    assert answers[3][0].tokens == theirs.translate([LINES[1]])[0][0].tokens
    assert theirs.translate([]) == []
    assert theirs.translate([""])[0][0].text == ""


def test_special_tokens_are_never_generated(make: Callable[..., Both]) -> None:
    ours, theirs = make(SearchConfig(beam=1, max_length_factor=1), special=3.0)
    expected, answers = ours.translate(LINES), theirs.translate(LINES)
    assert said(answers) == said(expected)
    for mine, other in zip(expected, answers, strict=True):  # log P is that of the model, not renormalised
        assert other[0].token_log_probs == pytest.approx(mine[0].token_log_probs, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 2])
def test_scores_can_be_left_out(make: Callable[..., Both], beam: int) -> None:
    ours, theirs = make(SearchConfig(beam=beam, max_length_factor=1))
    theirs.scores = False
    for mine, other in zip(ours.translate(LINES), theirs.translate(LINES), strict=True):
        assert other[0].text == mine[0].text
        assert other[0].token_log_probs == ()
        if beam == 1 and mine[0].text:
            assert math.isnan(other[0].score) and math.isnan(other[0].log_prob)
        else:
            assert other[0].score == pytest.approx(mine[0].score, abs=1e-5)
            assert other[0].log_prob == pytest.approx(mine[0].log_prob, abs=1e-4)


def test_forced_targets_have_equal_scores(make: Callable[..., Both]) -> None:
    ours, theirs = make(SearchConfig())
    pairs = [(line, line[::-1]) for line in LINES] + [("a", ""), ("a b", "ä")]
    counted: list[int] = []
    expected = ForcedScorer(ours.model, PAIR, ours.search).score(pairs)
    for mine, other in zip(expected, theirs.score(pairs, on_progress=counted.append), strict=True):
        assert (other.tokens, other.unknown) == (mine.tokens, mine.unknown)
        assert other.log_probs == pytest.approx(mine.log_probs, abs=1e-4)
    assert sum(counted) == len(pairs)


@pytest.mark.parametrize("line", ["a " * 25, "a " * 6])  # the source, or only its translation, may be too long
def test_a_line_that_is_too_long(make: Callable[..., Both], line: str) -> None:
    search = SearchConfig(beam=1, max_length_factor=3, max_length_extra=10)
    _, theirs = make(search, end=-9.0, positions="learned")
    with pytest.raises(SeqloomError, match="is longer than the 20 positions of the CTranslate2 model") as error:
        theirs.translate([line])
    assert error.value.hint == theirs.alternative
    with pytest.raises(SeqloomError, match="is longer than the 20 positions"):
        theirs.score([("a", "a " * 30)])


def test_a_line_that_is_too_long_is_translated_by_the_fallback(make: Callable[..., Both]) -> None:
    ours, theirs = make(SearchConfig(beam=1, max_length_factor=0.1), fallback=True)
    theirs._max_positions = 60
    lines = [LINES[0], "a " * 70, LINES[1]]
    counted: list[int] = []
    assert said(theirs.translate(lines, on_progress=counted.append)) == said(ours.translate(lines))
    assert sum(counted) == len(lines)


def test_the_fallback_uses_the_same_options(make: Callable[..., Both]) -> None:
    ours, theirs = make(SearchConfig(beam=2, max_length_factor=0.2, max_length_extra=4), end=-1.0)
    theirs._max_positions, line = 5, "a " * 8
    expected = ours.translate([line])
    other = TorchTranslator(ours.model, PAIR, SearchConfig(beam=2))
    theirs._fallback = lambda: other
    assert said(theirs.translate([line])) == said(expected) != said(other.translate([line]))


def test_a_beam_wider_than_the_vocabulary(make: Callable[..., Both]) -> None:
    _, theirs = make(SearchConfig())
    with pytest.raises(SeqloomError, match="A beam of 12 is too wide for the 16 tokens of"):
        theirs.translate(LINES, beam=12)
    with pytest.raises(SeqloomError, match=r"search.nbest=6 exceeds search.beam=5"):
        theirs.translate(LINES, nbest=6)


def test_unsupported_requests_are_refused(make: Callable[..., Both]) -> None:
    _, theirs = make(SearchConfig())
    with pytest.raises(SeqloomError, match="does not support alignments"):
        theirs.translate(LINES, alignment=True)
    with pytest.raises(SeqloomError, match=r"does not support search\.no_repeat=2"):
        theirs.with_search({"no_repeat": 2}).translate(LINES)
    with pytest.raises(SeqloomError, match="does not support prefixes"):
        theirs.translate([Request("a", prefix="b")])


def test_the_model_is_loaded_once_for_all_search_options(
    make: Callable[..., Both], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(folder: str, **options: Any) -> Any:
        loaded.append(folder)
        return library().Translator(folder, **options)

    _, theirs = make(SearchConfig())
    monkeypatch.setattr(ctranslate2_engine, "library", lambda: SimpleNamespace(Translator=load))
    for beam in (1, 2, 3):
        theirs.with_search({"beam": beam}).translate(LINES[:2])
    assert len(loaded) == 1


def test_a_damaged_model(make: Callable[..., Both]) -> None:
    _, theirs = make(SearchConfig())
    (theirs.folder / "model.bin").write_bytes(b"no model")
    with pytest.raises(SeqloomError, match=r"The CTranslate2 model in .* cannot be loaded") as error:
        theirs.translate(["a"])
    assert error.value.hint == "export the run again"
