"""The options that all benchmarks with figures share."""

from __future__ import annotations

import argparse
import importlib

import pytest

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import PAGE, SLIDE


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    importlib.import_module("command").add_figure_options(parser)
    return parser


def test_a_figure_is_drawn_for_a_page_unless_a_slide_is_wanted(parser: argparse.ArgumentParser) -> None:
    assert parser.parse_args(["--out", "x.png"]).style is PAGE
    assert parser.parse_args(["--out", "x.png", "--style", "slide"]).style is SLIDE
    assert "--style {page,slide}" in parser.format_help()


@pytest.mark.parametrize(("option", "value"), [("--out", "x.txt"), ("--style", "poster")])
def test_a_figure_that_cannot_be_drawn_is_refused_at_the_start(
    parser: argparse.ArgumentParser, option: str, value: str
) -> None:
    with pytest.raises(SeqloomError, match=value.lstrip("x")):
        parser.parse_args([option, value])


def test_a_failed_contestant_keeps_the_results_of_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    failures = importlib.import_module("command").Failures()
    results = []
    for name in ("first", "second", "third"):
        with failures.collect(name):
            if name == "second":
                raise SeqloomError("It made too few updates.", "give it more minutes")
            results.append(name)
    assert results == ["first", "third"]
    assert "second" in failures and "first" not in failures
    assert "second failed: It made too few updates." in capsys.readouterr().err
    with pytest.raises(SeqloomError, match="failed: second"):
        failures.raise_if_any()


def test_nothing_is_raised_without_failures() -> None:
    importlib.import_module("command").Failures().raise_if_any()
