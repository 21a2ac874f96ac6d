"""Rules that every lab follows: three possible verdicts, figures, stored numbers, complete text."""

from __future__ import annotations

import ast
import inspect
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

from seqloom.inspect.picture import PAGE, STYLES
from seqloom.labs.framework.choice import settings_of
from seqloom.labs.framework.discovery import labs
from seqloom.labs.framework.lab import Lab, Verdict
from seqloom.labs.framework.notebook import notebook
from seqloom.labs.framework.results import LabResult, ResultStore
from seqloom.labs.framework.running import run_lab
from support.figure_checks import check_drawing
from support.lab_cases import CASES

ALL = list(labs().values())
NAMES = list(labs())
DOCUMENTED = Path(__file__).parents[2] / "docs" / "labs" / "results"
FAST = 10.0, 60.0  # limits of the quick mode in seconds: without and with training


def reduced_run(lab: Lab[Any, Any]) -> LabResult:
    return run_lab(lab, lab.settings.model_validate(CASES[lab.name].settings))


def test_every_lab_has_fixed_numbers() -> None:
    assert set(CASES) == set(NAMES)


@pytest.mark.parametrize("verdict", Verdict, ids=lambda one: one.name)
@pytest.mark.parametrize("lab", ALL, ids=NAMES)
def test_three_fixed_inputs_give_the_three_verdicts(lab: Lab[Any, Any], verdict: Verdict) -> None:
    numbers = lab.numbers.model_validate(CASES[lab.name].by_verdict[verdict])
    before = numbers.model_dump_json()
    first, second = lab.judge(numbers), lab.judge(numbers)
    assert first == second
    assert first.verdict is verdict, first.reason
    assert first.reason.endswith(".")
    assert numbers.model_dump_json() == before


@pytest.mark.parametrize("lab", ALL, ids=NAMES)
def test_a_reduced_run_can_be_judged_stored_and_shown(lab: Lab[Any, Any], tmp_path: Path) -> None:
    result = reduced_run(lab)
    judgement = result.judgement
    assert judgement.verdict is CASES[lab.name].verdict, judgement.reason

    store = ResultStore(tmp_path)
    store.add(result)
    found = store.find(lab, result.settings)
    assert found is not None
    assert found.numbers == result.numbers
    assert found.judgement == judgement

    table = lab.table(result.numbers)
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.columns)}

    figure = Figure()
    lab.draw(result.numbers, figure, PAGE)
    assert all(panel.has_data() and panel.get_xlabel() for panel in figure.axes)


@pytest.mark.slow
@pytest.mark.parametrize("lab", ALL, ids=NAMES)
def test_the_figure_has_no_faults(lab: Lab[Any, Any]) -> None:
    figure = lab.plot(reduced_run(lab).numbers)
    for style in STYLES:
        check_drawing(lambda style: figure.plot(style=style), style)


@pytest.mark.slow
@pytest.mark.parametrize("lab", ALL, ids=NAMES)
def test_the_quick_mode_gives_the_verdict_of_the_documentation(lab: Lab[Any, Any]) -> None:
    stored = ResultStore(DOCUMENTED).latest()[lab.name]
    result = run_lab(lab, settings_of(lab))
    assert result.judgement.verdict is stored.judgement.verdict, result.judgement.reason
    assert result.seconds <= FAST[lab.trains]


@pytest.mark.parametrize("lab", ALL, ids=NAMES)
def test_the_text_is_complete(lab: Lab[Any, Any]) -> None:
    assert not lab.claim.endswith(".")
    for text in (lab.method, lab.criterion, lab.explanation, lab.exercise.question, lab.exercise.solution):
        assert len(text) > 20
    assert "hold" in lab.criterion
    assert 2 <= len(lab.variations) <= 3
    assert lab.seconds <= FAST[lab.trains]
    assert lab.trains == ("seeds" in lab.settings.model_fields)
    MathTextParser("path").parse(f"${lab.equation}$")
    assert all(info.description for info in lab.settings.model_fields.values())


@pytest.mark.parametrize("lab", ALL, ids=NAMES)
def test_modes_and_variations_are_valid_settings(lab: Lab[Any, Any]) -> None:
    quick = settings_of(lab)
    assert settings_of(lab, full=True) != quick or not lab.full
    for variation in lab.variations:
        assert settings_of(lab, assignments=shlex.split(variation.settings)) != quick


@pytest.mark.parametrize("lab", ALL, ids=NAMES)
def test_the_notebook_is_valid(lab: Lab[Any, Any]) -> None:
    content = json.loads(notebook(lab))
    code = [cell["source"] for cell in content["cells"] if cell["cell_type"] == "code"]
    assert len(code) == 3
    for text in code:
        ast.parse(text)


@pytest.mark.parametrize("lab", ALL, ids=NAMES)
def test_a_file_is_named_after_its_lab(lab: Lab[Any, Any]) -> None:
    assert Path(inspect.getfile(type(lab))).stem == lab.name.replace("-", "_")
