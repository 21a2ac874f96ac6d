"""Lessons: lists of states of the page with a heading and a paragraph each, read from YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl

import yaml
from pydantic import Field

from seqloom.errors import SeqloomError, quoted, unknown
from seqloom.settings import Settings
from seqloom.studio.runs import StudioRuns

FOLDER = Path(__file__).parent / "lessons"
LESSONS = tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))  # names of those in the package
_LARGEST = 1_000_000  # bytes of a file

Need = Literal["translation", "search", "attention", "no-attention", "hmm", "stacks", "gates"]
View = Literal[
    "translate",
    "attention",
    "search",
    "hmm",
    "stacks",
    "gates",
    "influence",
    "layers",
    "embeddings",
    "positions",
    "compare",
    "curves",
]


class _Kind(NamedTuple):
    """What a lesson asks of a run, and a model that has it."""

    description: str
    model: str


_KINDS: Mapping[Need, _Kind] = {
    "translation": _Kind("a model that translates", "transformer"),
    "search": _Kind("a model that translates with a beam search", "transformer"),
    "attention": _Kind("a translation model with attention", "transformer"),
    "no-attention": _Kind("a translation model without attention", "lstm-last"),
    "hmm": _Kind("a hidden Markov model", "hmm"),
    "stacks": _Kind("a phrase-based model", "phrase"),
    "gates": _Kind("a model with LSTM or GRU cells", "lstm-bilinear"),
}


class PageState(Settings):
    """State of the page, as in its address."""

    view: View = Field(description="view to show")
    run: str | None = Field(None, description="name of a run, or of an entry of `runs`")
    other: str | None = Field(None, description="second run, for compare and curves")
    text: str | None = Field(None, description="source text")
    prefix: tuple[str, ...] = Field((), description="tokens that the output begins with")
    place: tuple[int, int] | None = Field(None, description="output and token whose alternatives are shown")
    beam: int | None = Field(None, ge=1, le=50, description="beam size")
    nbest: int | None = Field(None, ge=1, le=50, description="number of outputs")
    penalty: float | None = Field(None, ge=0, le=10, description="length penalty")
    temperature: float | None = Field(None, ge=0, le=10, description="sample at this temperature")
    seed: int | None = Field(None, ge=0, description="seed of the samples")
    require: str | None = Field(None, description="required words, separated by semicolons")
    forbid: str | None = Field(None, description="forbidden words, separated by semicolons")
    kind: Literal["cross", "encoder", "decoder"] | None = Field(None, description="kind of attention")
    head: tuple[int, int] | None = Field(None, description="layer and head, from 0")
    drawing: Literal["map", "lines"] | None = Field(None, description="drawing of attention")
    words: bool | None = Field(None, description="merge subwords")
    step: int | None = Field(None, ge=1, description="last step of the search that is shown")
    node: int | None = Field(None, ge=0, description="number of a hypothesis of the search tree")
    hidePruned: bool | None = Field(None, description="hide pruned hypotheses")
    gateLayer: int | None = Field(None, ge=0, description="layer whose gates are shown")
    checkpoint: str | None = Field(None, description="name of a checkpoint")
    off: tuple[tuple[int, int], ...] = Field((), description="heads to switch off, as layer and head from 0")
    pins: tuple[tuple[int, int], ...] = Field((), description="places of the output pinned to source tokens")
    side: Literal["source", "target"] | None = Field(None, description="vocabulary of the embeddings")
    token: str | None = Field(None, description="token whose neighbours are listed")
    candidate: str | None = Field(None, description="translation to judge")


class LessonStep(Settings):
    """A state of the page, and what to say about it."""

    heading: str = Field(min_length=1, max_length=200, description="heading")
    paragraph: str = Field(min_length=1, max_length=5000, description="paragraph")
    state: dict[str, Any] | str = Field(description="state of the page, or its address")
    source: Literal["short", "long"] | None = Field(None, description="take the text from the data of the run")


class LessonFile(Settings):
    """A lesson, as in its file."""

    title: str = Field(min_length=1, max_length=200, description="title")
    runs: dict[str, Need] = Field({}, description="names for runs, and the kind of model that each must be")
    steps: list[dict[str, Any]] = Field(min_length=1, max_length=200, description="steps")


class Lesson(NamedTuple):
    """A lesson whose file is correct."""

    title: str
    runs: Mapping[str, Need]
    steps: tuple[tuple[LessonStep, PageState], ...]
    file: str


def read_lesson(name: str) -> Lesson:
    """Return a lesson of the package by its name, or from a YAML file."""
    path = FOLDER / f"{name}.yaml" if name in LESSONS else Path(name)
    if not path.is_file():
        if path.suffix in (".yaml", ".yml"):
            raise SeqloomError(f"There is no file {name}.", f"or choose one of {', '.join(LESSONS)}")
        raise unknown("lesson", name, LESSONS)
    where = str(path) if name not in LESSONS else f"the lesson {name}"
    found = LessonFile.checked(_tree(path), "lesson", where)
    return Lesson(found.title, found.runs, tuple(_steps(found, where)), where)


def _tree(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise SeqloomError(f"{path} is larger than {_LARGEST:,} bytes.", "give the file of a lesson")
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise SeqloomError(f"{path} is not a YAML file: {error}", "see docs/guides/studio.md") from error
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise SeqloomError(f"{path} is not a lesson.", "begin with `title:` and `steps:`")
    return found


def _steps(found: LessonFile, where: str) -> list[tuple[LessonStep, PageState]]:
    steps = []
    for number, values in enumerate(found.steps, 1):
        step = LessonStep.checked(values, f"step {number}", where)
        given = _of_address(step.state, number, where) if isinstance(step.state, str) else step.state
        state = PageState.checked(given, f"step {number}.state", where)
        if state.view != "curves" and step.source is not None and state.text is not None:
            raise SeqloomError(f"step {number} in {where} has a text and a source.", "leave one of them out")
        if state.view == "compare" and (state.run is None or state.other is None):
            raise SeqloomError(f"step {number} in {where} compares two models.", "give `run` and `other`")
        steps.append((step, state))
    return steps


def _of_address(address: str, number: int, where: str) -> dict[str, Any]:
    """Return the state in an address of the page, which may be copied from a browser."""
    _, mark, fragment = address.partition("#")
    if not mark:
        raise SeqloomError(
            f"step {number}.state in {where} is not an address of the page: {quoted(address)}.",
            "copy it from the browser, e.g. #view=translate&text=...",
        )
    found: dict[str, Any] = dict(parse_qsl(fragment))
    for name in ("prefix", "place", "head", "off", "pins"):
        if name in found:
            try:
                found[name] = json.loads(found[name])
            except ValueError as error:
                raise SeqloomError(f"step {number}.state in {where}: {name} is not a list.") from error
    return {name: value for name, value in found.items() if name not in ("large", "lesson", "present")}


async def lesson_document(lesson: Lesson, runs: StudioRuns) -> dict[str, Any]:
    """Return the title and steps of a lesson for the page, with the runs and texts filled in."""
    models: dict[str, Mapping[str, Any]] = {}
    chosen = await _chosen_runs(lesson, runs, models)
    steps = []
    for number, (step, state) in enumerate(lesson.steps, 1):
        values = state.model_dump(exclude_none=True, exclude_defaults=True) | {"view": state.view}
        for key in ("run", "other"):
            if key in values:
                values[key] = chosen.get(values[key], values[key])
                if values[key] not in runs.by_name:
                    raise unknown(f"run in step {number} of {lesson.file}", values[key], runs.by_name)
        values.setdefault("run", next(iter(runs.by_name)))
        if step.source is not None and state.view != "curves":
            model = await _model(runs, values["run"], models)
            values["text"] = model["long_example" if step.source == "long" else "example"]
        steps.append({"heading": step.heading, "paragraph": step.paragraph.strip(), "state": values})
    return {"title": lesson.title, "steps": steps}


async def _chosen_runs(
    lesson: Lesson, runs: StudioRuns, models: dict[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Return the run for each name of the lesson: the first ones given that fit."""
    if not lesson.runs:
        return {}
    for name in runs.by_name:
        await _model(runs, name, models)
        for picked in permutations(models, len(lesson.runs)):
            pairs = list(zip(lesson.runs.items(), picked, strict=True))
            if all(_fits(models[run], need) for (_, need), run in pairs):
                return {role: run for (role, _), run in pairs}
    missing = [need for need in lesson.runs.values() if not any(_fits(one, need) for one in models.values())]
    need = (missing or list(lesson.runs.values()))[0]
    kinds = " and ".join(_KINDS[one].description for one in lesson.runs.values())
    given = ", ".join(f"{name} ({one['architecture']})" for name, one in models.items())
    raise SeqloomError(
        f"The lesson “{lesson.title}” needs {kinds}. The given runs do not fit: {given}.",
        f"train one: seqloom train pairs.tsv --model {_KINDS[need].model} --out runs/{_KINDS[need].model}",
    )


async def _model(runs: StudioRuns, name: str, models: dict[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if name not in models:
        models[name] = json.loads(await runs.of(name).document("model", {}, client="lesson"))
    return models[name]


def _fits(model: Mapping[str, Any], need: Need) -> bool:
    """Return whether a model, as its document describes it, is of a kind."""
    views, translates = model["views"], {"translation", "search"} <= set(model["views"])
    if need in ("attention", "no-attention"):
        return translates and ("cross" in model["attention"]) == (need == "attention")
    return need in views
