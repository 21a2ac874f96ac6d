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
