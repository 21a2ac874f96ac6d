"""Plans for small corpora of every kind, explicit options, limits and errors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.run.config import from_options, with_options
from seqloom.run.planner import plan as planning
from seqloom.run.planner.calibration import Speed, measure_speed, rows_per_update
from seqloom.run.planner.facts import measure
from seqloom.run.planner.plan import Plan, compose_with_plan, make_plan, plan_mode
from seqloom.run.planner.rules import ADAPT, MIN_TOKENS, MIN_UPDATES, MODEL, SEARCH, TEXT, TRAIN
from seqloom.types import Example


@pytest.fixture
def draw() -> random.Random:
    return random.Random(3)


def _word(draw: random.Random) -> str:
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9)))


def _write(path: Path, rows: Iterator[tuple[str, ...]]) -> dict[str, Any]:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return {"data": {"train": [str(path)]}, "train": {"max_steps": 40}}


@pytest.fixture
def phonemes(tmp_path: Path, draw: random.Random) -> dict[str, Any]:
    words = [_word(draw) for _ in range(300)]
    return _write(tmp_path / "words.tsv", ((word, " ".join(word.upper())) for word in words))


@pytest.fixture
def actions(tmp_path: Path, draw: random.Random) -> dict[str, Any]:
    lines = [draw.choices("ABCDEF", k=5) for _ in range(300)]
    return _write(tmp_path / "actions.tsv", ((" ".join(line).lower(), " ".join(line)) for line in lines))


@pytest.fixture
def sentences(tmp_path: Path, draw: random.Random) -> dict[str, Any]:
    lines = [" ".join(_word(draw) for _ in range(6)) for _ in range(300)]
    return _write(tmp_path / "sentences.tsv", ((line, line.upper()) for line in lines))


def _speed(updates_per_second: float, tokens_per_second: float = 1e5) -> Speed:
    return Speed(updates_per_second, tokens_per_second, rows=10, parameters=1, memory_mb=1.0, threads=1)


def test_single_words_are_characters(phonemes: dict[str, Any]) -> None:
    values = make_plan(phonemes).values
    assert (values["text.tokenizer"], values["text.target_tokenizer"]) == ("char", "word")
    assert values["model.name"] == "lstm-bilinear"
    assert values["train.metrics"] == ["per"]


def test_closed_vocabularies_are_words(actions: dict[str, Any]) -> None:
    values = make_plan(actions).values
    assert values["text.tokenizer"] == "word"
    assert values["train.best_by"] == "exact"
    assert values["search.beam"] == 1


def test_sentences_are_subwords(sentences: dict[str, Any]) -> None:
    values = make_plan(sentences).values
    assert "text.tokenizer" not in values
    assert values["text.vocab_size"] == 1000
    assert values["train.metrics"] == ["bleu"]


def test_a_third_column_of_tags_is_used(tmp_path: Path, draw: random.Random) -> None:
    rows = [(_word(draw), _word(draw), draw.choice(["V;PST;SG", "N;PL"])) for _ in range(50)]
    tree = _write(tmp_path / "forms.tsv", iter(rows))
    plan = make_plan(tree)
    assert plan.values["data.tags_column"] == "3"
    assert plan.data.tags == 5
    config = from_options(with_options(tree, plan.values))
    assert config.data.tags_column == "3"
    assert (config.model.name, plan.values["model.tag_positions"]) == ("transformer", False)


def test_words_with_tags_keep_a_recurrent_model_that_is_given(tmp_path: Path, draw: random.Random) -> None:
    rows = [(_word(draw), _word(draw), draw.choice(["V;PST;SG", "N;PL"])) for _ in range(50)]
    tree = with_options(_write(tmp_path / "forms.tsv", iter(rows)), {"model.name": "lstm-bilinear"})
    values = make_plan(tree).values
    assert "model.name" not in values and "model.tag_positions" not in values


def test_indented_targets_are_code(tmp_path: Path, draw: random.Random) -> None:
    lines = [
        (f"{_word(draw)} {_word(draw)} it", f"    return {_word(draw)}  # {_word(draw)}") for _ in range(99)
    ]
    assert make_plan(_write(tmp_path / "code.tsv", iter(lines))).values["text.preset"] == "code"


@pytest.mark.parametrize(
    ("options", "closed"),
    [
        ({"model.name": "transformer"}, ["model.name"]),
        ({"model.size": "tiny"}, ["model.width", "model.layers"]),
        ({"model.width": 64}, ["model.layers"]),
        ({"text.joint": True, "text.tokenizer": "bpe"}, ["text.target_tokenizer", "text.byte_fallback"]),
        ({"text.sampling": "source"}, ["text.tokenizer"]),
        ({"train.average": 3}, ["train.keep"]),
        ({"train.learning_rate": 0.5, "train.metrics": ["exact"]}, ["train.learning_rate", "train.best_by"]),
    ],
    ids=str,
)
def test_explicit_options_win(phonemes: dict[str, Any], options: dict[str, Any], closed: list[str]) -> None:
    tree = with_options(phonemes, options)
    config, plan = compose_with_plan(tree, "auto")
    assert plan is not None
    assert not plan.values.keys() & {*options, *closed}
    for option, value in options.items():
        section, name = option.split(".")
        given = getattr(getattr(config, section), name)
        assert (list(given) if isinstance(given, tuple) else given) == value


def test_a_preset_keeps_its_own_options(sentences: dict[str, Any]) -> None:
    config, plan = compose_with_plan(with_options(sentences, {"model.name": "transformer-deep"}), "auto")
    assert plan is not None
    assert "model.layers" not in plan.values
    assert config.model.model_dump()["layers"] == 24


def test_every_choice_has_a_reason_and_a_source(phonemes: dict[str, Any], sentences: dict[str, Any]) -> None:
    for tree in (phonemes, sentences):
        for choice in make_plan(tree).choices:
            assert choice.reason and choice.source
            assert "{" not in choice.reason


def test_every_rule_sets_options_that_exist() -> None:
    known = {
        "lstm-bilinear": from_options({"model": {"name": "lstm-bilinear"}}),
        "transformer": from_options({}),
    }
    for rule in (*TEXT, *MODEL, *ADAPT, *TRAIN, *SEARCH):
        for option in rule.options:
            section, name = option.split(".")
            assert any(hasattr(getattr(config, section), name) for config in known.values()), option


def test_a_budget_measures_the_speed(sentences: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "measure_speed", lambda config, data: _speed(10.0))
    del sentences["train"]
    plan = make_plan(sentences, minutes=20)
    assert plan.values["train.max_minutes"] == 20
    assert plan.prediction is not None
    assert plan.prediction.updates == 20 * 60 * 9  # 90 % of the time
    assert plan.prediction.epochs == pytest.approx(10_800 * 10 / 300)
    assert plan.as_dict()["prediction"]["minutes"] == 20


def test_the_speed_is_measured_with_the_threads_of_the_training(sentences: dict[str, Any]) -> None:
    before = torch.get_num_threads()
    tree = with_options(
        sentences, {"model.size": "tiny", "train.threads": before + 1, "train.batch_tokens": 64}
    )
    speed = measure_speed(from_options(tree), measure([Example("a b", "c d")] * 9), seconds=0.01)
    assert speed.threads == before + 1
    assert torch.get_num_threads() == before


def test_a_slow_machine_gets_smaller_batches(
    sentences: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def speed(config: Any, data: Any) -> Speed:
        return _speed(0.4 * 4096 / config.train.batch_tokens)

    monkeypatch.setattr(planning, "measure_speed", speed)
    del sentences["train"]
    plan = make_plan(sentences, minutes=60)
    assert plan.values["train.batch_tokens"] == 1024  # 1,296 updates of 4,096 tokens, 2,592 of 2,048
    assert plan.prediction is not None and plan.prediction.updates >= MIN_UPDATES


def test_few_tokens_are_for_an_lstm(sentences: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    rate = MIN_TOKENS / (60 * 60 * 0.9)
    monkeypatch.setattr(planning, "measure_speed", lambda config, data: _speed(10.0, rate))
    del sentences["train"]
    assert "model.name" not in make_plan(sentences, minutes=60).values
    plan = make_plan(sentences, minutes=30)
    assert plan.values["model.name"] == "lstm-bilinear"
    assert plan.values["train.batch_tokens"] == 2048
    assert not {"model.heads", "model.ffn"} & plan.values.keys()
    reasons = {choice.option: choice.reason for choice in plan.choices}
    assert reasons["model.name"].startswith("5,000,000 target tokens")
    config = from_options(with_options(sentences, plan.values))
    assert config.model.name == "lstm-bilinear"


@pytest.mark.parametrize("option", [{"model.name": "transformer"}, {"model.width": 64}, {"model.dropout": 0.4}])
def test_a_transformer_that_the_user_shapes_stays(
    sentences: dict[str, Any], monkeypatch: pytest.MonkeyPatch, option: dict[str, Any]
) -> None:
    monkeypatch.setattr(planning, "measure_speed", lambda config, data: _speed(1.0, 100.0))
    del sentences["train"]
    assert "model.name" not in make_plan(with_options(sentences, option), minutes=30).values


def test_a_run_that_is_fine_tuned_keeps_its_model(
    sentences: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "measure_speed", lambda config, data: _speed(0.1, 100.0))
    sentences["train"] = {"init_from": ["runs/other"]}
    values = make_plan(sentences, minutes=30).values
    assert not [option for option in values if option.startswith("model.")]


def test_warm_up_and_checkpoints_fit_into_the_limit(sentences: dict[str, Any]) -> None:
    values = make_plan(with_options(sentences, {"train.max_steps": 60})).values
    assert isinstance(values["train.warmup"], int) and values["train.warmup"] <= 15
    assert "train.max_minutes" not in values


def test_epochs_are_converted_to_updates(sentences: dict[str, Any]) -> None:
    tree = with_options({"data": sentences["data"]}, {"train.max_epochs": 1000, "train.batch_tokens": 512})
    plan = make_plan(tree)
    config = from_options(with_options(tree, plan.values))
    updates = 1000 * 300 / rows_per_update(config, plan.data)
    assert plan.values["train.warmup"] == min(4000, round(updates / 12, -2))


def test_fine_tuning_keeps_tokenizers_and_model(sentences: dict[str, Any]) -> None:
    values = make_plan(with_options(sentences, {"train.init_from": ["runs/other"]})).values
    assert not any(option.startswith(("text.", "model.")) for option in values)
    assert values["train.learning_rate"] == 0.0003


@pytest.mark.parametrize(
    ("mode", "config", "expected"), [(None, None, "auto"), (None, "x", "fixed"), ("auto", "x", "auto")]
)
def test_a_configuration_file_is_a_complete_plan(mode: str | None, config: str | None, expected: str) -> None:
    assert plan_mode(mode, config) == expected


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="auto"):
        plan_mode("automatic", None)


@pytest.mark.parametrize("mode", ["auto", "fixed"])
def test_two_limits_are_an_error(sentences: dict[str, Any], mode: Any) -> None:
    with pytest.raises(SeqloomError, match=r"--minutes and train\.max_steps"):
        compose_with_plan(sentences, mode, minutes=5)


def test_models_without_rules_have_no_plan(sentences: dict[str, Any]) -> None:
    fitted = with_options({"data": sentences["data"]}, {"model.name": "hmm"})
    assert compose_with_plan(fitted, "auto")[1] is None
    with pytest.raises(SeqloomError, match="--minutes"):
        compose_with_plan(fitted, "auto", minutes=3)
    text = with_options({"data": sentences["data"]}, {"model.name": "lm"})
    config, plan = compose_with_plan(text, "auto", minutes=3)
    assert plan is None and config.train.max_minutes == 3


def test_fixed_means_constants(phonemes: dict[str, Any]) -> None:
    config, plan = compose_with_plan(phonemes, "fixed")
    assert plan is None
    assert config == from_options(phonemes)


def test_the_measured_speed_is_that_of_the_model(sentences: dict[str, Any]) -> None:
    data = measure([Example("a b c", "d e f")] * 10)
    small, large = (
        measure_speed(
            from_options(with_options(sentences, {"model.width": width, "train.batch_tokens": 256})), data, 0.2
        )
        for width in (16, 256)
    )
    assert small.updates_per_second > large.updates_per_second
    assert small.parameters < large.parameters
    assert small.rows == 256 // 5  # 1.4 subwords per word and EOS


def test_measuring_draws_no_random_numbers(sentences: dict[str, Any]) -> None:
    import torch

    torch.manual_seed(5)
    before = torch.get_rng_state()
    config = from_options(with_options(sentences, {"model.size": "tiny", "train.batch_tokens": 64}))
    measure_speed(config, measure([Example("a b", "c d")]), 0.01)
    assert torch.equal(before, torch.get_rng_state())


def test_a_plan_is_plain_data(phonemes: dict[str, Any]) -> None:
    import json

    plan: Plan = make_plan(phonemes)
    assert json.loads(json.dumps(plan.as_dict()))["data"]["pairs"] == 300
