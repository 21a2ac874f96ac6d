"""The demos run through: data, training, measuring and the picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqloom.demo import TASKS, DemoTask, _generated, demo_task, run_demo
from seqloom.errors import SeqloomError
from seqloom.types import Example

Split = tuple[list[Example], list[Example]]

# Three steps of a model that knows nothing; its answers are cut at once.
TINY = {
    "model.width": 16,
    "model.heads": 2,
    "model.ffn": 16,
    "model.layers": 1,
    "train.max_steps": 3,
    "search.beam": 1,
    "search.max_length_factor": 0,
    "search.max_length_extra": 2,
}


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
    result = run_demo(task, tmp_path / "runs" / "demo", settings=TINY)
    assert result.finished
    assert result.run == tmp_path / "runs" / "demo"
    assert result.picture == result.run / "attention.png"
    assert result.picture.read_bytes().startswith(b"\x89PNG")
    assert len(result.shown) == 12
    test = {(example.source, example.target) for example in splits[name][1]}
    assert all((source, reference) in test for source, _, answers in result.shown for reference in answers)
    assert [score.name for score in result.scores] == task.metrics.split(",")
    assert len(result.test_file.read_text().splitlines()) == 150


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


def test_a_demo_takes_its_minutes_as_a_limit(
    splits: dict[str, Split], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqloom import demo
    from seqloom.config import Config

    class Seen(Exception):
        pass

    seen: list[Config] = []

    def create(config: Config, out: Path) -> None:
        seen.append(config)
        raise Seen

    monkeypatch.setattr(demo, "create_and_train", create)
    task = smaller(TASKS["dates"], splits["dates"])
    for number, minutes in enumerate((None, 0.5)):
        with pytest.raises(Seen):
            run_demo(task, tmp_path / str(number), minutes=minutes)
    assert [config.train.max_minutes for config in seen] == [task.minutes, 0.5]


def test_an_unknown_demo() -> None:
    with pytest.raises(SeqloomError, match="There is no demo called 'poems'"):
        demo_task("poems")
