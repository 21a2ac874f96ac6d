"""`seqloom demo`: the whole straight line on data that needs no download, in a few minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqloom.config import compose
from seqloom.data.lexicon import cmudict_examples, split_words
from seqloom.data.tasks import generate
from seqloom.errors import unknown
from seqloom.evaluate.metrics import Score, evaluate
from seqloom.evaluate.references import group_by_source
from seqloom.files import write_atomically
from seqloom.inspect.attention import Attention
from seqloom.loading import load_decoder
from seqloom.pipeline import create_and_train
from seqloom.types import Example, Hypothesis

_SEED = 2026
Shown = tuple[str, str, list[str]]  # source, answer, references


@dataclass(frozen=True)
class DemoTask:
    """A task, its data, and the options that suit it."""

    name: str
    what: str
    split: Callable[[], tuple[list[Example], list[Example]]]
    metrics: str
    picture_of: str  # the source whose attention is drawn
    minutes: float
    names: dict[str, str] = field(default_factory=dict)  # what this field calls a metric
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows."""

    run: Path
    test_file: Path
    picture: Path
    scores: list[Score]
    shown: list[Shown]
    finished: bool


def _pronunciation() -> tuple[list[Example], list[Example]]:
    return split_words(cmudict_examples(), held_out=2000, seed=_SEED)


def _generated(task: str, count: int) -> Callable[[], tuple[list[Example], list[Example]]]:
    def split() -> tuple[list[Example], list[Example]]:
        examples = list(generate(task, count + 1000, _SEED))
        return examples[1000:], examples[:1000]

    return split


_COMMON: dict[str, Any] = {
    "model.name": "transformer",
    "model.size": "tiny",
    "model.dropout": 0.0,
    "data.valid_max": 500,
    "text.byte_fallback": False,
    "train.batch_tokens": 1600,
    "train.learning_rate": 3e-3,
    "train.warmup": 200,
    "train.schedule": "cosine",
    "train.clip": 1.0,
    "train.checkpoint_every": 2000,
    "train.label_smoothing": 0.1,
    "train.ema": 0.995,
}

TASKS: dict[str, DemoTask] = {
    task.name: task
    for task in (
        DemoTask(
            "pronunciation",
            "English words → phonemes (CMU dictionary)",
            _pronunciation,
            metrics="per,error",
            picture_of="thoroughly",
            minutes=2.5,
            names={"error": "WER"},  # of words: a pronunciation is right or wrong as a whole
            settings={
                "text.tokenizer": "char",
                "text.target_tokenizer": "word",
                "search.max_length_factor": 1.5,  # a word has hardly more phonemes than letters
                "search.max_length_extra": 8,
                "train.batch_tokens": 800,
            },
        ),
        DemoTask(
            "dates",
            "dates as people write them → ISO 8601",
            _generated("dates", 40_000),
            metrics="exact,cer",
            picture_of="den 3. Oktober 1990",
            minutes=1.5,
            settings={
                "text.tokenizer": "char",
            },
        ),
        DemoTask(
            "numbers",
            "numbers in words, English → German",
            _generated("numbers", 40_000),
            metrics="exact,cer",
            picture_of="four hundred and sixty-seven thousand, three hundred and twenty-one",
            minutes=1.5,
            settings={
                "text.tokenizer": "bpe",
                "text.vocab_size": 300,
            },
        ),
    )
}


def demo_task(name: str) -> DemoTask:
    """The demo of that name."""
    if name not in TASKS:
        raise unknown("demo", name, TASKS)
    return TASKS[name]


def run_demo(
    task: DemoTask,
    out: Path,
    *,
    minutes: float | None = None,
    settings: dict[str, Any] | None = None,
    style: str = "page",
) -> DemoResult:
    """Train on all but the held-out part, measure on it, and draw the attention of one output."""
    folder = out.with_name(f"{out.name}-data")
    training, test = task.split()
    train_file, test_file = folder / "train.tsv", folder / "test.tsv"
    folder.mkdir(parents=True, exist_ok=True)
    _write(train_file, training)
    _write(test_file, test)
    values = {
        "data.train": str(train_file),
        **_COMMON,
        **task.settings,
        "train.max_minutes": minutes or task.minutes,
        **(settings or {}),
    }
    state = create_and_train(compose(values=values), out)
    translator = load_decoder(out)
    sources, references = group_by_source((e.source, e.target or "") for e in test)
    answers = [best[0].text for best in translator.translate(sources)]
    drawn = translator.translate([task.picture_of], alignment=True)[0][0]
    return DemoResult(
        run=out,
        test_file=test_file,
        picture=_draw(drawn, out / "attention.png", task.picture_of, style),
        scores=evaluate(answers, references, task.metrics),
        shown=_spread(list(zip(sources, answers, references, strict=True)), 12),
        finished=bool(state.finished),
    )


def _spread(rows: list[Shown], count: int) -> list[Shown]:
    """So many rows, evenly from all."""
    return [rows[i * len(rows) // count] for i in range(count)]


def _write(file: Path, examples: Iterable[Example]) -> None:
    write_atomically(file, "".join(f"{e.source}\t{e.target}\n" for e in examples))


def _draw(hypothesis: Hypothesis, path: Path, source: str, style: str) -> Path:
    Attention.of(hypothesis).save(path, title=f"Attention: {source} → {hypothesis.text}", style=style)
    return path
