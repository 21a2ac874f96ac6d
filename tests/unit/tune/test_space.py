"""The search space: the default table, a user's file, and what cannot be tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.registry import architectures
from seqloom.run.config import compose, option_names
from seqloom.tune.settings import study_settings
from seqloom.tune.space import SPACE, Range, default_space, value_of
from support.runs import write_digits


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    return {"data.train": [str(write_digits(tmp_path / "pairs.tsv"))], "train.max_steps": 2}


def test_the_default_space_has_known_options_and_contains_their_defaults() -> None:
    config = compose()
    assert set(SPACE) <= set(option_names())
    for name, row in SPACE.items():
        assert row.contains(value_of(config, name)), name


@pytest.mark.parametrize("model", sorted(architectures(fitted=False)))
def test_every_value_of_the_default_space_is_valid(model: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a b\n")
    is_text = architectures()[model].task.learns_text
    data = str(text if is_text else write_digits(tmp_path / "pairs.tsv"))
    tree = {"data.train": [data], "model.name": model, "train.max_steps": 2}
    if model == "transformer-syntax":
        tree["data.heads_column"] = "3"
    settings = study_settings(None, tree, [])
    assert {"model.dropout", "train.learning_rate"} <= settings.space.keys()


def test_options_that_do_not_apply_are_left_out() -> None:
    def names(metric: str = "chrf", fixed: tuple[str, ...] = (), **options: str) -> set[str]:
        config = compose(values={name.replace("__", "."): value for name, value in options.items()})
        return set(default_space(config, fixed=fixed, metric=metric))

    assert "text.vocab_size" in names() and "text.vocab_size" in names(text__tokenizer="bpe")
    assert "text.vocab_size" not in names(text__tokenizer="char")
    assert "text.vocab_size" in names(text__tokenizer="char", text__target_tokenizer="bpe")
    assert "text.vocab_size" not in names(metric="loss")
    assert "train.label_smoothing" not in names(model__name="lstm-vectors")
    assert "model.dropout" not in names(fixed=("model.dropout",))
    with pytest.raises(SeqloomError, match="No option is left"):
        names(fixed=tuple(SPACE))


def test_a_file_overrides_the_space(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(
        "train.learning_rate: {low: 0.001, high: 0.01, log: true}\n"
        "model.layers: {low: 1, high: 3}\ntrain.schedule: {choices: [linear, cosine]}\n"
    )
    settings = study_settings(None, values, [], space=tmp_path / "space.yaml")
    assert list(settings.space) == ["train.learning_rate", "model.layers", "train.schedule"]
    assert [row.is_integer for row in settings.space.values()] == [False, True, False]
    assert settings.make_config({"model.layers": 3}).model.model_dump()["layers"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "train.learning_rat: {low: 0.1, high: 1.0}",
            r"train\.learning_rat .*did you mean train\.learning_rate",
        ),
        ("learning_rate: {low: 0.1, high: 1.0}", r"learning_rate .*did you mean train\.learning_rate"),
        ("model.order: {low: 1, high: 3}", r"model\.order"),
        ("train.learning_rate: 0.1", r"train\.learning_rate in .* a range or a list"),
        ("train.learning_rate: {low: 0.1}", "low and high"),
        ("train.learning_rate: {low: 1.0, high: 0.1}", "less than high"),
        ("train.learning_rate: {low: 0.0, high: 0.1, log: true}", "above 0"),
        ("train.learning_rate: {choices: [0.1], low: 1}", "choices"),
        ("train.learning_rate: {lo: 0.1, high: 1.0}", r"train\.learning_rate\.lo"),
        ("model.dropout: {low: 0.1, high: 1.5}", r"model\.dropout.*1\.5"),
        ("train.schedule: {choices: [cosine, sine]}", r"train\.schedule.*sine"),
        ("search.beam: {low: 1, high: 5}", r"search\.beam.*tune search"),
        ("data.max_length: {low: 1, high: 5}", "comparable"),
        ("train.max_steps: {low: 1, high: 5}", "comparable"),
        ("model.size: {choices: [tiny, small]}", r"model\.size .*also set"),
        ("", "is empty"),
        ("- 1", "must be a mapping"),
    ],
)
def test_a_wrong_space_is_an_error(values: dict[str, Any], tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "space.yaml").write_text(text)
    with pytest.raises(SeqloomError) as caught:
        study_settings(None, {**values, "model.size": "tiny"}, [], space=tmp_path / "space.yaml")
    assert_matches(message, str(caught.value))


def assert_matches(message: str, text: str) -> None:
    import re

    assert re.search(message, text, re.DOTALL), text


def test_the_loss_cannot_compare_tokenizers(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("text.vocab_size: {choices: [100, 200]}")
    with pytest.raises(SeqloomError, match="per token"):
        study_settings(None, values, [], metric="loss", space=tmp_path / "space.yaml")


def test_the_metric_is_that_of_the_options(values: dict[str, Any]) -> None:
    def metric(*assignments: str, **given: str) -> str:
        settings = study_settings(None, values, assignments, **given)  # type: ignore[arg-type]
        assert settings.make_config({}).train.best_by == settings.metric
        return settings.metric

    assert metric() == "chrf"
    assert metric("train.metrics=bleu,per") == "bleu"
    assert metric("train.metrics=bleu,per", "train.best_by=per") == "per"
    assert metric("train.best_by=loss") == "loss"
    assert metric(metric="EXACT") == "exact"
    with pytest.raises(SeqloomError, match="metric called 'blue'"):
        metric(metric="blue")
    with pytest.raises(SeqloomError, match=r"train\.best_by=loss"):
        metric("train.best_by=loss", metric="bleu")


def test_a_fitted_model_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(SeqloomError, match="hmm is fitted"):
        study_settings(None, {**values, "model.name": "hmm"}, [])


def test_ranges() -> None:
    row = Range.checked({"low": 1, "high": 4}, "x")
    assert row.contains(1) and row.contains(4) and not row.contains(5) and not row.contains(None)
    assert row.examples() == (1, 4)
    assert Range.checked({"choices": ["a", "b"]}, "x").contains("a")
