"""Every figure of the package and of the benchmarks is drawn and checked, on a page and on a slide."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import seqloom
from seqloom.errors import SeqloomError
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.line_styles import display_names, line_styles
from seqloom.inspect.picture import COLORS, PAGE, SLIDE, STYLES, MissingGlyphWarning, canvas
from seqloom.labs.framework.discovery import labs
from support.figure_checks import check_drawing, figure_faults
from support.figures import BENCHMARKS, FIGURES, INSPECTIONS, attention, gradients

PACKAGE = Path(seqloom.__file__).parent
DRAWING = {"savefig", "Figure", "NotebookFigure", "figure", "subplots", "canvas"}  # names of calls that draw


def _in_both_styles() -> list[Any]:
    """Each figure in one style, in turn; in the other style with the slow tests."""
    return [
        pytest.param(name, style, marks=() if (place + turn) % 2 else pytest.mark.slow)
        for place, name in enumerate(FIGURES)
        for turn, style in enumerate(STYLES)
    ]


@pytest.mark.parametrize(("name", "style"), _in_both_styles())
def test_figures_have_no_faults(name: str, style: str) -> None:
    check_drawing(FIGURES[name], style)


def _calls(file: Path) -> set[str]:
    """Return the names of all functions and methods that a file calls."""
    calls = (
        node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    )
    return {name for call in calls if (name := getattr(call.func, "attr", getattr(call.func, "id", "")))}


def _all_subclasses(of: type) -> set[type]:
    return {one for sub in of.__subclasses__() for one in (sub, *_all_subclasses(sub))}


def test_all_figures_are_tested() -> None:
    """Only inspections, labs and benchmarks draw. Each is among the figures; tests/contracts draws the labs."""
    drawn = {type(make()) for make in INSPECTIONS.values()}
    ours = {one for one in _all_subclasses(Inspection) if one.__module__.startswith("seqloom.")}
    assert ours == drawn
    modules = {one.__module__ for one in ours} | {type(lab).__module__ for lab in labs().values()}
    outside = [
        file.relative_to(PACKAGE)
        for file in PACKAGE.rglob("*.py")
        if _calls(file) & DRAWING
        and file.relative_to(PACKAGE).parts[0] != "inspect"
        and ".".join(("seqloom", *file.relative_to(PACKAGE).with_suffix("").parts)) not in modules
    ]
    assert outside == []
    benchmarks = {file.stem for file in BENCHMARKS.glob("*.py") if _calls(file) & DRAWING}
    assert benchmarks == {
        *("attention_scaling", "learning_curve", "ngram", "pareto", "quality_report", "recall_curves", "trials")
    }


def _faulty(draw: Any) -> list[str]:
    with canvas(3, 2, style=PAGE) as figure:
        axes = figure.subplots()
        axes.set(xlabel="x", ylabel="y")
        draw(axes)
    return figure_faults(figure)


@pytest.mark.parametrize(
    "fault, draw",
    [
        ("raw TeX", lambda axes: axes.set_title(r"$\mathdefault{10^{-1}}$", parse_math=False)),
        ("markup", lambda axes: axes.set_xticks([0.5], ["</s>"])),
        ("markup", lambda axes: axes.set_xticks([0.5], ["&quot;"])),
        ("9 pt is too small", lambda axes: axes.text(0.5, 0.5, "a", fontsize=9)),
        ("no label on the x axis", lambda axes: axes.set_xlabel("")),
        ("no label on the y axis", lambda axes: axes.set_ylabel("")),
        ("outside the canvas", lambda axes: axes.text(0.5, 0.5, "a" * 80)),
        ("overlapping tick labels", lambda axes: axes.set_xticks([0.5, 0.52], ["aaa", "bbb"])),
        ("overlapping tick labels", lambda axes: axes.set_xticks([0.5, 0.52], ["aaa", "bbb"], rotation=45)),
        ("overlapping tick labels", lambda axes: axes.set_yticks([0.5, 0.52], ["aaa", "bbb"])),
    ],
)
@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
def test_the_checks_find_the_fault(fault: str, draw: Any) -> None:
    faults = _faulty(draw)
    assert faults and all(one.startswith(fault) for one in faults)


def test_a_figure_without_faults_passes_the_checks() -> None:
    assert (
        _faulty(lambda axes: axes.set(xticks=[0, 0.5], yscale="log", ylim=(1e-3, 1), title="$x^2$ for $5"))
        == []
    )


def test_our_formulas_are_rendered_and_dollar_signs_of_users_are_not() -> None:
    figure = gradients().plot(title="pay $5 or $\\frac$")
    formulas = {text.get_text() for axes in figure.axes for text in (axes.yaxis.label, *axes.get_yticklabels())}
    assert all("$" in text for text in formulas)
    assert figure.get_suptitle() == r"pay \$5 or \$\frac\$"


# -- common interface of all results


@pytest.mark.parametrize("name", INSPECTIONS)
def test_every_result_is_plain_data_and_a_figure(name: str, tmp_path: Path) -> None:
    found = INSPECTIONS[name]()
    found.save(str(tmp_path / "a.json"))
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == json.loads(
        json.dumps(found.to_dict())
    )


@pytest.mark.parametrize(
    "suffix, magic", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")]
)
def test_the_suffix_chooses_the_format(suffix: str, magic: bytes, tmp_path: Path) -> None:
    attention().save(tmp_path / f"a.{suffix}", title="a title")
    assert (tmp_path / f"a.{suffix}").read_bytes().startswith(magic)


def test_html_is_written_if_there_is_a_page(tmp_path: Path) -> None:
    INSPECTIONS["search-tree"]().save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(SeqloomError, match=r"cannot be written as \.html") as caught:
        attention().save(tmp_path / "b.html")
    assert caught.value.hint.endswith(".png, .svg, .pdf, .json")


@pytest.mark.parametrize("suffix", ["json", "png"])
def test_a_missing_folder_is_an_error(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"cannot be written: No such file"):
        attention().save(tmp_path / "no" / f"a.{suffix}")


def test_notebooks_display_results_and_figures() -> None:
    found = attention()
    figure = found.plot()
    assert isinstance(figure, Figure)
    assert found._repr_png_().startswith(b"\x89PNG")
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_an_unknown_style_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="no style called 'poster'"):
        attention().plot(style="poster")


def test_user_settings_have_no_effect_and_are_not_changed() -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "text.parse_math": False}):
        figure = attention().plot()
        assert figure_faults(figure) == []
        assert max(text.get_fontsize() for text in figure.axes[0].get_xticklabels()) == PAGE.text
        assert matplotlib.rcParams["font.size"] == 30
    assert SLIDE.text == 16


def test_characters_without_a_font_give_one_warning(tmp_path: Path) -> None:
    unassigned = chr(0xE000), chr(0xE001)  # for private use: no font has them
    with pytest.warns(MissingGlyphWarning, match="Install a font") as caught:
        attention().save(tmp_path / "a.png", title=" ".join(unassigned))
    assert len(caught) == 1
    assert "".join(unassigned) in str(caught[0].message)


# -- line styles and names of models


def test_a_model_has_the_same_style_in_every_comparison() -> None:
    alone, beside = line_styles(["transformer"]), line_styles(["phrase", "lstm-last", "transformer (run2)"])
    assert beside["transformer (run2)"] == alone["transformer"]
    assert len({look.color for look in beside.values()}) == 3
    assert line_styles(["mine"]) == line_styles(["mine"])


def test_styles_do_not_repeat_before_all_colors_are_used() -> None:
    found = line_styles([f"model-{number}" for number in range(3 * len(COLORS))])
    assert len({look.color for look in list(found.values())[: len(COLORS)]}) == len(COLORS)
    assert len(set(found.values())) == 3 * len(COLORS)


def test_display_names_have_folders_only_if_models_repeat() -> None:
    runs = ["runs/a", "runs/b", "old/b", "runs/c"]
    assert display_names(["lstm-last", "lm", "lm", "lm"], runs) == [
        "lstm-last",
        "lm (runs/b)",
        "lm (old/b)",
        "lm (c)",
    ]
