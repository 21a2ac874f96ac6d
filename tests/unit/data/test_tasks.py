"""Generated tasks: deterministic, correct and unique pairs."""

import datetime
import itertools
import re
import sys
from random import Random

import pytest

from seqloom.data.tasks import TASKS, dates, generate, symbols
from seqloom.errors import SeqloomError

COUNT = 2000


@pytest.mark.parametrize("task", TASKS)
def test_pairs_depend_on_the_seed_and_sources_are_unique(task: str) -> None:
    if task == "numbers":
        pytest.importorskip("num2words")
    pairs = list(generate(task, COUNT, seed=3))
    assert pairs == list(generate(task, COUNT, seed=3))
    assert pairs != list(generate(task, COUNT, seed=4))
    assert len({e.source for e in pairs}) == COUNT == len(pairs)
    assert [e.line for e in pairs] == list(range(1, COUNT + 1))
    assert not any(re.search(r"[\t\r\n]", f"{e.source}{e.target}") for e in pairs)


def test_targets_follow_from_sources() -> None:
    for e in generate("copy", 100, seed=1):
        assert e.target == e.source
    for e in generate("reverse", 100, seed=1):
        assert e.target == e.source[::-1]
    for e in generate("sort", 100, seed=1):
        assert e.target == " ".join(sorted(e.source.split()))
    for e in generate("addition", 100, seed=1):
        assert int(e.target or "") == sum(map(int, e.source.split("+")))


@pytest.mark.parametrize("distance", [1, 2, 30])
def test_the_letter_to_recall_is_at_the_given_distance_from_the_end(distance: int) -> None:
    random = Random(1)
    letters = set()
    for _ in range(200):
        source, target = symbols.recall(random, distance)
        letter, *digits = source.split(" ")
        assert letter == target
        assert len(digits) == distance - 1 and all(digit in symbols.DIGITS for digit in digits)
        letters.add(letter)
    assert letters == set(symbols.LETTERS) and not letters & set(symbols.DIGITS)


def test_the_task_recall_has_all_distances() -> None:
    lengths = {len(e.source.split()) for e in generate("recall", 2000, seed=1)}
    assert lengths == set(range(2, 51))


def test_an_exhausted_task_repeats_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "_digits", lambda random: [random.choice("01")])
    pairs = list(generate("copy", 5, seed=1))
    assert len(pairs) == 5
    assert {e.source for e in pairs} == {"0", "1"}


def test_every_date_is_unambiguous() -> None:
    readings: dict[str, str] = {}
    random = Random(1)
    for _ in range(20_000):
        source, target = dates.draw(random)
        datetime.date.fromisoformat(target)
        assert readings.setdefault(source, target) == target


def test_patterns_of_different_languages_do_not_conflict() -> None:
    # All days of four years in all patterns: an ambiguous text would be found.
    readings: dict[str, str] = {}
    for offset, (name, language) in itertools.product(range(1461), dates.LANGUAGES.items()):
        date = datetime.date(2000, 1, 1) + datetime.timedelta(days=offset)
        for pattern in language.patterns:
            text = pattern.format(**dates._numbers(date), **dates._names(date, name)).lower()
            assert readings.setdefault(text, date.isoformat()) == date.isoformat()


def test_numeric_dates_with_slashes_are_unambiguous() -> None:
    random = Random(2)
    seen = 0
    for _ in range(5000):
        source, target = dates.draw(random)
        if re.fullmatch(r"\d{1,2}/\d{1,2}/\d+", source):
            seen += 1
            assert sorted(int(part) > 12 for part in source.split("/")[:2]) == [False, True], (source, target)
    assert seen > 50


@pytest.mark.parametrize(
    "day, expected", [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (23, "23rd")]
)
def test_english_ordinals(day: int, expected: str) -> None:
    assert dates.english_ordinal(day) == expected


def test_numbers_are_equal_in_both_languages() -> None:
    num2words = pytest.importorskip("num2words").num2words
    known = {num2words(n, lang="en"): num2words(n, lang="de") for n in range(1000)}
    pairs = [e for e in generate("numbers", 300, seed=1) if e.source in known]
    assert len(pairs) > 100
    assert all(known[e.source] == e.target for e in pairs)


def test_without_num2words_the_error_has_an_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "num2words", None)
    with pytest.raises(SeqloomError, match=r"seqloom\[demo\]"):
        next(generate("numbers", 1, seed=1))


@pytest.mark.parametrize("name, hint", [("revrse", "did you mean 'reverse'"), ("xyz", "the tasks are copy")])
def test_an_unknown_task_is_rejected_at_once(name: str, hint: str) -> None:
    with pytest.raises(SeqloomError, match=hint):
        generate(name, 1, seed=1)
