"""The demos: data, training, evaluation and the picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqloom import demo
from seqloom.demo import (
    TASKS,
    DemoTask,
    _generated,
    demo_task,
    evaluate_demo,
    prepare_data,
    train_demo,
)
from seqloom.errors import SeqloomError
from seqloom.run.config import Config
from seqloom.training.checkpoint import TrainState
from seqloom.types import Example
from support.configs import SHORT_OUTPUTS, TINY_TRANSFORMER

Split = tuple[list[Example], list[Example]]

# Three steps of a model that knows nothing; its answers are cut at once.
TINY = {**TINY_TRANSFORMER, **SHORT_OUTPUTS, "train.max_steps": 3}


@pytest.fixture(scope="module")
def splits() -> dict[str, Split]:
    """The dictionary as it is, and less of what is generated: 40,000 numbers take their time."""
    dictionary = TASKS["pronunciation"].split()
    return {
        "pronunciation": dictionary,
        "dates": _generated("dates", 2000)(),
        "numbers": _generated("numbers", 2000)(),
    }


def smaller(task: DemoTask, split: Split) -> DemoTask:
    return replace(task, split=lambda: (split[0][:400], split[1][:150]))


@pytest.mark.parametrize("name", TASKS)
def test_a_demo_runs_through(name: str, splits: dict[str, Split], tmp_path: Path) -> None:
    task = smaller(TASKS[name], splits[name])
    run = tmp_path / "runs" / "demo"
    data = prepare_data(task, tmp_path / "data")
    assert len(data.training_file.read_text().splitlines()) == 400
    assert len(data.test_file.read_text().splitlines()) == 150
    assert train_demo(task, data, run, settings=TINY).finished
    result = evaluate_demo(task, data, run)
    assert result.picture == run / "attention.png"
    assert result.picture.read_bytes().startswith(b"\x89PNG")
    assert [score.name for score in result.scores] == list(task.metrics)
    test = {(example.source, example.target) for example in data.test}
    shown = [(shown.source, reference) for shown in result.predictions for reference in shown.references]
    assert set(shown) == test
    assert not any(shown.correct for shown in result.predictions)  # after three steps


@pytest.mark.parametrize("name", TASKS)
def test_nothing_that_is_tested_was_trained_on(name: str, splits: dict[str, Split]) -> None:
    training, test = splits[name]
    assert len(test) >= 1000
    assert len(training) >= 2000
    assert not {example.source for example in training} & {example.source for example in test}


def test_all_pronunciations_of_a_word_are_on_one_side(splits: dict[str, Split]) -> None:
    training, test = splits["pronunciation"]
    words = {example.source for example in test}
    assert len(words) == 2000
    assert len(test) > len(words)  # so some word has variants
    assert not words & {example.source for example in training}


def test_most_short_numbers_are_for_training(splits: dict[str, Split]) -> None:
    training, test = ([len(example.source.split()) for example in part].count(1) for part in splits["numbers"])
    assert training > test > 0


def test_the_picture_is_of_a_word_that_is_held_out(splits: dict[str, Split]) -> None:
    words = {example.source for example in splits["pronunciation"][1]}
    assert TASKS["pronunciation"].picture_of in words


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations of the runs that were to be trained; none is."""
    seen: list[Config] = []

    def create_and_train(config: Config, out: Path, **_: object) -> TrainState:
        seen.append(config)
        return TrainState()

    monkeypatch.setattr(demo, "create_and_train", create_and_train)
    return seen


def test_a_demo_ends_after_its_steps_or_its_minutes_or_the_given_minutes(
    configs: list[Config], splits: dict[str, Split], tmp_path: Path
) -> None:
    task = smaller(TASKS["dates"], splits["dates"])
    data = prepare_data(task, tmp_path)
    for minutes in (None, 0.5):
        train_demo(task, data, tmp_path / "run", minutes=minutes)
    limits = [(config.train.max_steps, config.train.max_minutes) for config in configs]
    assert limits == [(task.steps, task.minutes), (None, 0.5)]
    assert {config.train.threads for config in configs} == {1}


def test_an_unknown_demo() -> None:
    with pytest.raises(SeqloomError, match=r"demo.*poems"):
        demo_task("poems")
