"""Results of a comparison, computed from the records of its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import mean
from typing import Any

import numpy as np

from seqloom.compare.examples import Shown, choose_examples
from seqloom.compare.folder import ComparisonFolder, Decoding, Failure, Setup, System, Training
from seqloom.compare.settings import SUMMARIES
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.data.testset import TestSet, read_testset
from seqloom.evaluate.buckets import Bucket, by_length, by_value
from seqloom.evaluate.metrics import BOOTSTRAP, METRICS, SEED, Metric, Score, computed, score
from seqloom.evaluate.resample import Matrix, interval, resampled_totals
from seqloom.evaluate.significance import difference_test
from seqloom.models.recurrent import RecurrentSettings
from seqloom.registry import architecture
from seqloom.run.config import from_options

# Buckets by the rarest word of a source: occurrences in the training sources.
FREQUENCIES = (1, 2, 4, 8, 16, 64)


@dataclass(frozen=True)
class Difference:
    """Difference of a model from the best one, with its 95 % interval and p-value (paired bootstrap)."""

    delta: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Point:
    """A validation during training."""

    minutes: float
    target_tokens: float | None  # None: a fitted model
    value: float


@dataclass(frozen=True)
class Row:
    """Result of a model: means over its seeds that have not failed."""

    label: str
    summary: str
    fitted: bool
    seeds: list[int]
    scores: list[Score]
    by_seed: list[float]  # first metric
    difference: Difference | None  # None: the best model
    parameters: int
    minutes: float
    steps: int | None  # None: a fitted model
    tokens_per_second: float | None
    memory_mb: float
    sentences_per_second: float
    ended: list[str]
    by_length: list[Bucket]  # of the first seed, as are the curve and the outputs
    by_frequency: list[Bucket]
    curve: list[Point]
    findings: list[dict[str, str]]
    options: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        buckets = {
            name: [bucket.as_dict() for bucket in getattr(self, name)] for name in ("by_length", "by_frequency")
        }
        return {**asdict(self), **buckets}


@dataclass(frozen=True)
class FailedRun:
    """A system without a result, and why."""

    name: str
    label: str
    message: str
    hint: str
    findings: list[dict[str, str]]


@dataclass(frozen=True)
class Results:
    """All results of a comparison."""

    setup: Setup
    rows: list[Row]  # in the order of the models
    failed: list[FailedRun]
    missing: list[str]  # systems that have not been run
    examples: list[Shown]

    @property
    def best(self) -> Row | None:
        return next((row for row in self.rows if row.difference is None), None)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of results.json."""
        setup = self.setup
        return {
            "settings": setup.settings.model_dump(mode="json"),
            "budget": setup.settings.budget,
            "sizes": setup.sizes.model_dump(),
            "metrics": setup.metrics,
            "machine": setup.machine,
            "created": setup.created,
            "models": [row.as_dict() for row in self.rows],
            "failed": [asdict(run) for run in self.failed],
            "missing": self.missing,
            "examples": [example.as_dict() for example in self.examples],
        }


def read_results(folder: ComparisonFolder) -> Results:
    """Compute the results of the systems that have been run so far."""
    return _Computation(folder).results()


@dataclass(frozen=True)
class _Done:
    """A system with its records."""

    system: System
    training: Training
    decoding: Decoding


class _Computation:
    """Computes the rows of a comparison."""

    def __init__(self, folder: ComparisonFolder) -> None:
        self.folder, self.setup = folder, folder.setup()
        self.metrics: list[Metric] = [METRICS[name]() for name in self.setup.metrics]

    def results(self) -> Results:
        systems = self.setup.systems
        done, failed, missing = list[_Done](), list[FailedRun](), list[str]()
        for system in systems:
            training, decoding = self.folder.training(system), self.folder.decoding(system)
            if training and decoding:
                done.append(_Done(system, training, decoding))
            elif failure := self.folder.failure(system):
                failed.append(_failed(system, failure))
            else:
                missing.append(system.name)
        labels = list(dict.fromkeys(one.system.label for one in done))
        groups = {label: [one for one in done if one.system.label == label] for label in labels}
        samples = {label: self._samples(group, self.metrics[0]) for label, group in groups.items()}
        best = self._best(samples)
        rows = [self._row(group, best, samples) for group in groups.values()]
        outputs = {label: group[0].decoding.texts for label, group in groups.items()}
        shown = self._examples(outputs, groups) if outputs else []
        return Results(self.setup, rows, failed, missing, shown)

    @cached_property
    def test(self) -> TestSet:
        config = from_options({"data": {"train": [str(self.folder.part("train"))]}})
        return read_testset(config.data, [str(self.folder.part("test"))])

    @cached_property
    def rarest(self) -> list[int]:
        """Occurrences of the rarest word of each test source in the training sources."""
        data = from_options({"data": {"train": [str(self.folder.part("train"))]}}).data
        sources = (example.source for example in read_corpus(data, "train", DataReport()))
        counts = Counter(word for source in sources for word in source.split())
        return [min((counts[word] for word in source.split()), default=0) for source in self.test.sources]

    def _samples(self, group: Sequence[_Done], metric: Metric) -> tuple[float, Matrix]:
        """Return the score of a model, and that of each bootstrap sample: means over its seeds."""
        values, drawn = [], []
        for one in group:
            statistics = metric.corpus_statistics(one.decoding.texts, self.test.references)
            values.append(metric.compute(statistics.sum(axis=0)))
            drawn.append(computed(metric, resampled_totals(statistics, bootstrap=BOOTSTRAP, seed=SEED)))
        return mean(values), np.mean(drawn, axis=0)

    def _best(self, samples: Mapping[str, tuple[float, Matrix]]) -> str:
        sign = 1 if self.metrics[0].higher_is_better else -1
        return max(samples, key=lambda label: sign * samples[label][0], default="")

    def _row(self, group: Sequence[_Done], best: str, samples: Mapping[str, tuple[float, Matrix]]) -> Row:
        first = group[0]
        system, texts = first.system, first.decoding.texts
        trainings = [one.training for one in group]
        speeds = [one.tokens_per_second for one in trainings if one.tokens_per_second is not None]
        lines = len(self.test.sources)
        return Row(
            label=system.label,
            summary=self._summary(system),
            fitted=system.fitted,
            seeds=[one.system.seed for one in group],
            scores=[self._score(group, metric) for metric in self.metrics],
            by_seed=[self._samples([one], self.metrics[0])[0] for one in group],
            difference=None if system.label == best else _difference(samples[best], samples[system.label]),
            parameters=first.training.parameters,
            minutes=mean(one.seconds for one in trainings) / 60,
            steps=None if system.fitted else round(mean(one.steps for one in trainings)),
            tokens_per_second=mean(speeds) if speeds else None,
            memory_mb=max(one.memory_mb for one in trainings),
            sentences_per_second=mean(lines / max(one.decoding.seconds, 1e-9) for one in group),
            ended=[one.ended for one in trainings],
            by_length=by_length(self.test.sources, texts, self.test.references, self.metrics[0]),
            by_frequency=by_value(
                self.rarest, "occurrences", texts, self.test.references, self.metrics[0], edges=FREQUENCIES
            ),
            curve=self._curve(first),
            findings=first.training.findings,
            options=_options(system),
        )

    def _score(self, group: Sequence[_Done], metric: Metric) -> Score:
        """Return the score of a model; with one seed, that of `seqloom evaluate`."""
        statistics = metric.corpus_statistics(group[0].decoding.texts, self.test.references)
        own = score(metric, statistics, self.test.references, BOOTSTRAP, SEED)
        if len(group) == 1:
            return own
        value, drawn = self._samples(group, metric)
        low, high = interval(drawn)
        return Score(own.name, value, low, high, own.signature, own.count, own.higher_is_better, own.label)

    def _summary(self, system: System) -> str:
        if system.label in SUMMARIES and not self.setup.settings.models[system.label]:
            return SUMMARIES[system.label]
        entry = architecture(str(system.config["model"]["name"]))
        return f"{entry.summary} ({entry.paper})"

    def _curve(self, one: _Done) -> list[Point]:
        """Return the first metric on validation lines over minutes and target tokens."""
        if one.decoding.valid_score is not None:
            return [Point(one.training.seconds / 60, None, one.decoding.valid_score)]
        reports = self.folder.run(one.system).metrics()
        trained = [entry for entry in reports if entry["kind"] == "train" and entry.get("target_tokens")]
        steps = [0, *(entry["step"] for entry in trained)]
        tokens = [0, *(entry["target_tokens"] for entry in trained)]
        return [
            Point(
                entry["seconds"] / 60,
                float(np.interp(entry["step"], steps, tokens)),
                entry[self.metrics[0].name],
            )
            for entry in reports
            if entry["kind"] == "valid" and entry.get(self.metrics[0].name) is not None
        ]

    def _examples(
        self, outputs: Mapping[str, Sequence[str]], groups: Mapping[str, Sequence[_Done]]
    ) -> list[Shown]:
        references = [alternatives[0] for alternatives in self.test.references]
        return choose_examples(self.test.sources, references, outputs, self._attention_pair(groups))

    def _attention_pair(self, groups: Mapping[str, Sequence[_Done]]) -> tuple[str, str] | None:
        """Return a recurrent model that gets the last state only, and one with attention, if both are there."""
        context: dict[str, str] = {}
        for label, group in groups.items():
            settings = self.folder.config(group[0].system).model
            if isinstance(settings, RecurrentSettings):
                context.setdefault(settings.context, label)
        return (context["last"], context["attention"]) if {"last", "attention"} <= context.keys() else None


def _failed(system: System, failure: Failure) -> FailedRun:
    return FailedRun(system.name, system.label, failure.message, failure.hint, failure.findings)


def _difference(best: tuple[float, Matrix], own: tuple[float, Matrix]) -> Difference:
    delta = own[0] - best[0]
    return Difference(delta, *difference_test(delta, own[1] - best[1]))


def _options(system: System) -> dict[str, Any]:
    """Return the options of a system that describe its model and its training."""
    config = system.config
    names = ("learning_rate", "batch_tokens", "label_smoothing", "schedule", "warmup", "ema")
    train = {} if system.fitted else {f"train.{name}": config["train"][name] for name in names}
    model = {f"model.{name}": value for name, value in config["model"].items() if not isinstance(value, dict)}
    text = {f"text.{name}": config["text"][name] for name in ("tokenizer", "vocab_size", "joint")}
    return {**text, **model, **train}
