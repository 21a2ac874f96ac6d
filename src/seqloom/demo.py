"""`seqloom demo`: train, test and draw a small model on data that needs no download, in a few minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.data.cmudict import cmudict_examples, split_words
from seqloom.data.tasks import generate
from seqloom.errors import unknown
from seqloom.evaluate.metrics import Score, evaluate
from seqloom.evaluate.references import group_by_source
from seqloom.files import write_atomically
from seqloom.inspect.attention import Attention
from seqloom.run.config import compose
from seqloom.run.load import load_decoder
from seqloom.run.train import create_and_train
from seqloom.training.checkpoint import TrainState
from seqloom.types import Example

_SEED = 2026


@dataclass(frozen=True)
class DemoTask:
    """A task, its data, and settings that learn it in a few minutes on two processor cores."""

    name: str
    goal: str
    item: str  # noun for a source
    split: Callable[[], tuple[list[Example], list[Example]]]
    metrics: dict[str, str]  # name → meaning of the percentage
    picture_of: str  # source whose attention is drawn
    steps: int  # enough to learn the task
    minutes: float  # the limit on a slow or busy machine
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DemoData:
    """The examples of a demo, and the files that hold them."""

    training: list[Example]
    test: list[Example]
    training_file: Path
    test_file: Path


class DemoPrediction(NamedTuple):
    """A held-out source, the model's output, and all correct outputs."""

    source: str
    output: str
    references: list[str]

    @property
    def correct(self) -> bool:
        """Whether the output is one of the references."""
        return self.output in self.references


@dataclass(frozen=True)
class DemoResult:
    """Scores and outputs on the held-out examples, and a picture of the attention."""

    scores: list[Score]
    predictions: list[DemoPrediction]
    picture: Path


def _pronunciation() -> tuple[list[Example], list[Example]]:
    return split_words(cmudict_examples(), held_out=2000, seed=_SEED)


def _generated(task: str, count: int) -> Callable[[], tuple[list[Example], list[Example]]]:
    def split() -> tuple[list[Example], list[Example]]:
        """Hold out every n-th example, not the first ones: they include almost all numbers below 100."""
        examples = list(generate(task, count + 1000, _SEED))
        every = len(examples) // 1000
        training = [example for number, example in enumerate(examples) if number % every]
        return training, examples[::every]

    return split


_COMMON: dict[str, Any] = {
    "model.name": "transformer",
    "model.size": "tiny",
    "model.width": 64,
    "model.ffn": 256,
    "model.dropout": 0.0,
    "data.valid_max": 500,
    "text.byte_fallback": False,
    "train.batch_tokens": 800,
    "train.learning_rate": 5e-3,
    "train.warmup": 200,
    "train.schedule": "cosine",
    "train.clip": 1.0,
    "train.checkpoint_every": 2000,
    "train.label_smoothing": 0.1,
    "train.ema": 0.995,
    "train.threads": 1,  # two are 1.3 times as fast on idle cores, and many times slower on busy ones
}

TASKS: dict[str, DemoTask] = {
    task.name: task
    for task in (
        DemoTask(
            "pronunciation",
            "Learn to pronounce English words: letters → phonemes (CMU dictionary)",
            "word",
            _pronunciation,
            metrics={
                "per": "of the phonemes are wrong (PER)",
                "error": "of the words have a wrong phoneme (WER)",
            },
            picture_of="counterweights",
            steps=8000,
            minutes=3,
            settings={
                "text.tokenizer": "char",
                "text.target_tokenizer": "word",
                "search.max_length_factor": 1.5,  # a word has hardly more phonemes than letters
                "search.max_length_extra": 8,
            },
        ),
        DemoTask(
            "dates",
            "Learn to normalise dates: spellings of several languages → ISO 8601",
            "date",
            _generated("dates", 40_000),
            metrics={
                "exact": "of the dates are correct (exact match)",
                "cer": "of the characters are wrong (CER)",
            },
            picture_of="den 3. Oktober 1990",
            steps=3000,
            minutes=2,
            settings={
                "text.tokenizer": "char",
            },
        ),
        DemoTask(
            "numbers",
            "Learn to translate numbers in words: English → German",
            "number",
            _generated("numbers", 40_000),
            metrics={
                "exact": "of the numbers are correct (exact match)",
                "cer": "of the characters are wrong (CER)",
            },
            picture_of="four hundred and sixty-seven thousand, three hundred and twenty-one",
            steps=4000,
            minutes=2,
            settings={
                "text.tokenizer": "bpe",
                "text.vocab_size": 300,
            },
        ),
    )
}


def demo_task(name: str) -> DemoTask:
    """Return the demo of that name."""
    if name not in TASKS:
        raise unknown("demo", name, TASKS)
    return TASKS[name]


def prepare_data(task: DemoTask, folder: Path) -> DemoData:
    """Write the training and the held-out examples of a task as tables of pairs."""
    training, test = task.split()
    data = DemoData(training, test, folder / "train.tsv", folder / "test.tsv")
    folder.mkdir(parents=True, exist_ok=True)
    _write(data.training_file, training)
    _write(data.test_file, test)
    return data


def train_demo(
    task: DemoTask,
    data: DemoData,
    out: Path,
    *,
    minutes: float | None = None,
    settings: dict[str, Any] | None = None,
) -> TrainState:
    """Train a new run for the steps of the task, limited by its minutes, or for the given minutes.

    The learning rate reaches zero at the first limit, so training is complete on a slow or busy machine, too,
    with fewer examples seen.
    """
    limits = {"train.max_minutes": minutes}
    if minutes is None:
        limits = {"train.max_minutes": task.minutes, "train.max_steps": task.steps}
    values: dict[str, Any] = {
        "data.train": str(data.training_file),
        **_COMMON,
        **task.settings,
        **limits,
        **(settings or {}),
    }
    return create_and_train(compose(values=values), out, quiet=True, progress=True)


def evaluate_demo(task: DemoTask, data: DemoData, run: Path, *, style: str = "page") -> DemoResult:
    """Score a trained run on the held-out examples, and draw the attention of one output."""
    translator = load_decoder(run)
    sources, references = group_by_source((example.source, example.target or "") for example in data.test)
    outputs = [best[0].text for best in translator.translate(sources)]
    drawn = translator.translate([task.picture_of], alignment=True)[0][0]
    picture = run / "attention.png"
    Attention.of(drawn).save(picture, title=f"Attention: {task.picture_of} → {drawn.text}", style=style)
    return DemoResult(
        scores=evaluate(outputs, references, ",".join(task.metrics)),
        predictions=[DemoPrediction(*row) for row in zip(sources, outputs, references, strict=True)],
        picture=picture,
    )


def _write(file: Path, examples: Iterable[Example]) -> None:
    write_atomically(file, "".join(f"{example.source}\t{example.target}\n" for example in examples))
