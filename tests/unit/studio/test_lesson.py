"""Lessons: files with faults are explained, and runs are chosen by the kind of model that a lesson needs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli.studio import _LESSON_NAMES
from seqloom.errors import SeqloomError
from seqloom.studio.lesson import LESSONS, PageState, lesson_document, read_lesson
from seqloom.studio.runs import StudioRun, StudioRuns
from support.commands import Command
from support.golden import GOLDEN

FIXTURES = GOLDEN / "fixtures"
STATE_KEYS = Path(__file__).parents[3] / "src" / "seqloom" / "studio" / "static" / "state.js"


class _Run(StudioRun):
    """A run whose model document is given."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self._model = model

    async def document(self, view: str, fields: Mapping[str, Any], client: str) -> str:
        return json.dumps(self._model)


def _runs(**kinds: str) -> StudioRuns:
    runs = StudioRuns([])
    views = ["translation", "search"]
    for name, kind in kinds.items():
        model = {
            "architecture": kind,
            "views": views if kind != "phrase" else ["translation", "stacks"],
            "attention": ["cross"] if kind == "transformer" else [],
            "example": f"short {name}",
            "long_example": f"long {name}",
        }
        runs.by_name[name] = _Run(model)
    return runs


def _document(name: str, runs: StudioRuns) -> dict[str, Any]:
    return asyncio.run(lesson_document(read_lesson(name), runs))


def test_a_lesson_finds_the_runs_that_it_needs() -> None:
    found = _document("why-attention", _runs(p="phrase", t="transformer", l="lstm-last"))
    assert found["title"] == "Why attention"
    first, second = found["steps"][:2]
    assert first["state"] == {"view": "translate", "run": "l", "text": "short l"}
    assert (second["state"]["run"], second["state"]["other"]) == ("l", "t")
    assert second["state"]["text"] == "long l"
    with pytest.raises(SeqloomError, match=r"needs .* without attention .*p \(phrase\), t \(transformer\)"):
        _document("why-attention", _runs(p="phrase", t="transformer"))
    assert _document("how-beam-search-decides", _runs(x="lstm-last"))["steps"][1]["state"]["beam"] == 1


def test_the_help_lists_the_lessons_of_the_package() -> None:
    assert set(LESSONS) == set(_LESSON_NAMES.split(", "))


def test_a_state_has_the_keys_of_the_address() -> None:
    kinds = re.search(r"const KINDS = \{(.*?)\};", STATE_KEYS.read_text(encoding="utf-8"), re.S)
    assert kinds is not None
    names = set(re.findall(r"(\w+):", kinds[1])) - {"large", "present", "lesson"}
    assert names == set(PageState.model_fields)


def test_a_state_can_be_an_address(tmp_path: Path) -> None:
    address = "http://127.0.0.1:8766/#view=search&run=a&text=x+y&beam=3&prefix=%5B%22z%22%5D&words=1&lesson=2"
    (tmp_path / "l.yaml").write_text(
        f'title: T\nsteps:\n  - {{heading: H, paragraph: P, state: "{address}"}}\n', encoding="utf-8"
    )
    (step,) = _document(str(tmp_path / "l.yaml"), _runs(a="transformer"))["steps"]
    assert step["state"] == {
        "view": "search",
        "run": "a",
        "text": "x y",
        "beam": 3,
        "prefix": ("z",),
        "words": True,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not a YAML file"),
        ("- 1", "not a lesson"),
        ("title: T", "lesson.steps"),
        ("title: T\nsteps: []", "lesson.steps"),
        ("title: T\nstep: []\nsteps: [{}]", "lesson.step"),
        ("title: T\nruns: {a: rnn}\nsteps: [{}]", "lesson.runs"),
        ("title: T\nsteps: [{heading: H, state: {view: search}}]", "step 1.paragraph"),
        ("title: T\nsteps: [{heading: H, paragraph: P, state: {view: x}}]", "step 1.state.view"),
        ("title: T\nsteps: [{heading: H, paragraph: P, state: {view: search, beams: 3}}]", "step 1.state.beam"),
        ("title: T\nsteps: [{heading: H, paragraph: P, state: {view: search, beam: 0}}]", "step 1.state.beam"),
        ("title: T\nsteps: [{heading: H, paragraph: P, state: search}]", "not an address"),
        ("title: T\nsteps: [{heading: H, paragraph: P, state: '#view=search&head=x'}]", "head is not a list"),
        ("title: T\nsteps: [{heading: H, paragraph: P, state: {view: compare}}]", "run` and `other"),
        (
            "title: T\nsteps: [{heading: H, paragraph: P, source: long, state: {view: search, text: a}}]",
            "a text and a source",
        ),
        ("title: T\nsteps: [{heading: H, paragraph: P, state: {view: search, run: b}}]", "no run in step 1"),
    ],
)
def test_faults_of_a_lesson_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "l.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SeqloomError) as caught:
        _document(str(tmp_path / "l.yaml"), _runs(a="transformer"))
    assert message in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lesson", "why"], "no lesson called 'why'"),
        (["--lesson", "nowhere.yaml"], "no file nowhere.yaml"),
        (["--lesson", "why-attention", "--follow"], "--follow and --lesson"),
    ],
)
def test_wrong_lessons_of_the_command_are_errors(command: Command, arguments: list[str], message: str) -> None:
    done = command("studio", FIXTURES / "transformer", "--no-open", "--port", "0", *arguments)
    assert done.code == 2 and message in done.err


def test_a_lesson_that_does_not_fit_stops_the_command(command: Command) -> None:
    done = command("studio", FIXTURES / "phrase", "--no-open", "--port", "0", "--lesson", "why-attention")
    assert done.code == 2 and "phrase (phrase)" in done.err and "--model lstm-last" in done.err


def test_the_server_leaves_the_log_handlers_of_other_packages_open(command: Command) -> None:
    class Handler(logging.StreamHandler):  # type: ignore[type-arg]
        closed = False

        def close(self) -> None:
            self.closed = True
            super().close()

    handler = Handler()
    command("studio", FIXTURES / "phrase", "--no-open", "--port", "0", "--lesson", "why-attention")
    assert not handler.closed
