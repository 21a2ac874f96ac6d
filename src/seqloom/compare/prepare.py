"""Preparation of a comparison: everything that is decided before the first model is trained."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seqloom.compare.folder import ComparisonFolder, PartSizes, Setup, System
from seqloom.compare.machine import machine_facts
from seqloom.compare.settings import CompareSettings
from seqloom.compare.split import split
from seqloom.data.corpus import Corpus
from seqloom.data.readers import has_features, read_corpus
from seqloom.data.report import DataReport, clean
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import parse_metrics, sentence_metric
from seqloom.files import fsync, sealed, write_json
from seqloom.outputs import new_output_folder
from seqloom.progress import counter
from seqloom.registry import architecture
from seqloom.run.config import Config, assigned, from_options, option_tree, with_options
from seqloom.run.data_settings import adapt_to_data
from seqloom.run.load import check_search_options
from seqloom.run.planner.calibration import measure_speed
from seqloom.run.planner.facts import DataFacts
from seqloom.run.planner.plan import Plan, choose_columns, make_plan
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example

logger = logging.getLogger(__name__)

_SECOND_METRIC = "chrf"
_TOKENIZER = "text."
_SPEED_SECONDS = 2.0
# Options that describe the files of the user; the parts of the split have two columns and a header.
_FILE_OPTIONS = (
    *("train", "source", "target", "format"),
    *("source_column", "target_column", "tags_column", "heads_column"),
)


def prepare(folder: ComparisonFolder, settings: CompareSettings) -> Setup:
    """Create the folder of a comparison: split data, tokenizers, and the configuration of every run."""
    sums = data_sums(settings)
    metrics = [metric.name for metric in parse_metrics(settings.metrics or "bleu")]
    for metric in metrics:
        sentence_metric(metric)  # raises for a metric without a test of significance
    given = {name: _given(settings, name) for name in settings.models}
    with new_output_folder(folder.path) as path:
        draft = ComparisonFolder(path)
        sizes = _split(settings, draft)
        composer = _Composer(settings, folder, draft)
        options = {name: composer.chosen(tree) for name, tree in given.items()}
        if settings.metrics is None:
            metrics = list(dict.fromkeys((composer.metric, _SECOND_METRIC)))
        configs = {name: composer.config(name, chosen, metrics[0]) for name, chosen in options.items()}
        names = _train_tokenizers(configs, draft)
        systems = [
            _system(settings, name, seed, configs[name], names[name], composer.seconds(name, configs[name]))
            for name in settings.models
            for seed in range(1, settings.seeds + 1)
        ]
        setup = Setup(
            settings=settings,
            sums=sums,
            sizes=sizes,
            metrics=metrics,
            machine=machine_facts(),
            created=datetime.now().astimezone().isoformat(timespec="minutes"),
            systems=systems,
        )
        write_json(draft.setup_file, sealed(setup.model_dump(mode="json")))
        fsync(draft.path)
    return setup


def data_sums(settings: CompareSettings) -> dict[str, str]:
    """Return the checksum of each data file."""
    config = from_options(_data_tree(settings))
    return Corpus(config.data, config.text).checksums()


def _data_tree(settings: CompareSettings) -> dict[str, Any]:
    """Return the data options."""
    values = {
        "data.train": settings.pairs or None,
        "data.source": settings.source,
        "data.target": settings.target,
        "data.source_column": settings.source_column,
        "data.target_column": settings.target_column,
    }
    return option_tree(None, values, [one for one in settings.set if one.startswith("data.")])


def _given(settings: CompareSettings, name: str) -> dict[str, Any]:
    """Return the options that the user gives for a model; raise if it cannot be compared on pairs."""
    tree = with_options(_data_tree(settings), dict(assigned(settings.set)) | settings.options(name))
    config = from_options(tree, f"the model {name}")
    if has_features(config.data):
        raise SeqloomError(
            "The sources are feature files, but a comparison needs text on both sides.",
            "use seqloom train and seqloom evaluate --compare",
        )
    if config.data.context:
        raise SeqloomError(
            "data.context cannot be used in a comparison, because its parts are drawn line by line.",
            "use seqloom train and seqloom evaluate --compare",
        )
    check_search_options(config)
    return tree


def _split(settings: CompareSettings, draft: ComparisonFolder) -> PartSizes:
    """Write the three parts of the data."""
    tree = _data_tree(settings)
    columns = choose_columns(from_options(tree).data)
    data = from_options(with_options(tree, {choice.option: choice.value for choice in columns})).data

    def examples() -> Iterator[Example]:
        report = DataReport()
        with counter("read pairs") as advance:
            for example in clean(read_corpus(data, "train", report), report):
                advance(1)
                yield example

    draft.part("train").parent.mkdir()
    sizes = split(examples, sum(1 for _ in examples()), draft.part)
    logger.info(f"data: {sizes.train:,} training, {sizes.valid:,} validation and {sizes.test:,} test pairs")
    return sizes


@dataclass(frozen=True)
class _Chosen:
    """Options of a model: those of the user, and those that the planner chose."""

    tree: dict[str, Any]
    plan: Mapping[str, Any]


class _Composer:
    """Composes the configuration of every model on the split data, with one tokenizer for all."""

    def __init__(self, settings: CompareSettings, folder: ComparisonFolder, draft: ComparisonFolder) -> None:
        self._settings, self._folder, self._draft = settings, folder, draft
        self._text: dict[str, Any] | None = None  # tokenizer options, chosen once
        self._facts: DataFacts | None = None
        self.metric = "bleu"

    def _on(self, folder: ComparisonFolder, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Return options with the split data in place of the given data, without the budget."""
        data = {key: value for key, value in tree.get("data", {}).items() if key not in _FILE_OPTIONS}
        files = {"data.train": str(folder.part("train")), "data.valid": str(folder.part("valid"))}
        return with_options({**tree, "data": data}, files)

    def chosen(self, tree: Mapping[str, Any]) -> _Chosen:
        """Let the planner choose what the user leaves open; all trained models get the same tokenizer."""
        entry = architecture(str(tree["model"]["name"]))
        if entry.fitted:
            return _Chosen(dict(tree), {})
        draft = self._on(self._draft, tree)
        if self._text is None:
            self._choose_tokenizer(draft)
        draft = _with_open(draft, self._text or {})
        plan = self._plan(draft).values if entry.task.planned else {}
        return _Chosen(_with_open(dict(tree), self._text or {}), plan)

    def _plan(self, draft: dict[str, Any]) -> Plan:
        """Plan a model for the budget: for minutes, the planner measures its speed."""
        if self._settings.steps is not None:
            return make_plan(with_options(draft, self._settings.limit))
        return make_plan(draft, minutes=self._settings.minutes)

    def _choose_tokenizer(self, draft: dict[str, Any]) -> None:
        """Choose the tokenizer and the metric from the data."""
        plan = make_plan(with_options(draft, {"train.max_steps": 1}))  # measures no speed
        self._facts = plan.data
        self._text = {key: value for key, value in plan.values.items() if key.startswith(_TOKENIZER)}
        self.metric = str(plan.values.get("train.best_by", self.metric))

    def config(self, name: str, chosen: _Chosen, metric: str) -> Config:
        """Return the configuration of a model; checkpoints are selected by the metric that ranks the models."""
        tree = with_options(self._on(self._folder, chosen.tree), {**chosen.plan, **self._settings.limit})
        if not architecture(str(tree["model"]["name"])).fitted:
            tree = with_options(tree, {"train.metrics": [metric], "train.best_by": metric})
        return from_options(tree, f"the model {name}")

    def seconds(self, name: str, config: Config) -> float | None:
        """Return the predicted training time: the budget, or that of the updates at the measured speed."""
        if architecture(config.model.name).fitted:
            return None
        if self._settings.minutes is not None:
            return 60 * self._settings.minutes
        assert self._facts is not None, "chosen is called first"
        speed = measure_speed(adapt_to_data(config), self._facts, _SPEED_SECONDS)
        return (self._settings.steps or 0) / speed.updates_per_second


def _with_open(tree: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with those values that the user leaves open; a given tokenizer is kept as a whole."""
    return tree if tree.get("text") else with_options(tree, values)


def _train_tokenizers(configs: Mapping[str, Config], draft: ComparisonFolder) -> dict[str, str]:
    """Train each distinct tokenizer once; return the name of that of every model."""
    names: dict[str, str] = {}
    known: dict[str, str] = {}
    for name, config in configs.items():
        key = config.text.model_dump_json()
        if key not in known:
            kind = config.text.tokenizer
            taken = sum(other.startswith(kind) for other in known.values())
            known[key] = kind if not taken else f"{kind}-{taken + 1}"
            pair = TokenizerPair.train(config.text, lambda: _pairs(draft))
            pair.save(draft.tokenizer(known[key]))
        names[name] = known[key]
    return names


def _pairs(draft: ComparisonFolder) -> Iterator[tuple[str, str]]:
    """Yield the training pairs."""
    data = from_options({"data": {"train": [str(draft.part("train"))]}}).data
    for example in read_corpus(data, "train", DataReport()):
        yield example.source, example.target or ""


def _system(
    settings: CompareSettings,
    label: str,
    seed: int,
    config: Config,
    tokenizer: str,
    seconds: float | None,
) -> System:
    train = config.train.model_copy(update={"seed": seed})
    return System(
        name=label if settings.seeds == 1 else f"{label}-seed-{seed}",
        label=label,
        seed=seed,
        fitted=architecture(config.model.name).fitted,
        tokenizer=tokenizer,
        seconds=seconds,
        config=config.model_copy(update={"train": train}).model_dump(mode="json"),
    )


def check_same(setup: Setup, settings: CompareSettings) -> None:
    """Raise if a folder has a comparison with other settings or other data."""
    before, now = setup.settings.model_dump(mode="json"), settings.model_dump(mode="json")
    for name, value in now.items():
        if value != before[name]:
            raise SeqloomError(
                f"The folder has a comparison with other {name}: {before[name]}, not {value}.",
                "repeat the command that started it, or choose another --out",
            )
    if changed := [file for file, sum in data_sums(settings).items() if setup.sums.get(file) != sum]:
        raise SeqloomError(
            f"{changed[0]} has changed since the comparison was started.",
            "restore the file, or choose another --out",
        )
