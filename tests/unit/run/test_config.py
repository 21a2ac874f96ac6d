"""Configurations composed of a file, values and assignments, and their error messages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from seqloom.data.config import DataConfig
from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError
from seqloom.registry import architectures
from seqloom.run.config import Config, compose, from_tree, read_yaml
from seqloom.settings import Settings
from seqloom.text.config import TextConfig
from seqloom.training.config import TrainConfig


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "options.yaml"
    path.write_text("model: {name: transformer, size: tiny, layers: 1}\ntrain: {seed: 1, warmup: 1}\n")
    return path


def error_message(**given: object) -> str:
    with pytest.raises(SeqloomError) as error:
        compose(**given)  # type: ignore[arg-type]
    return str(error.value)


def test_the_default_is_a_small_transformer_with_a_limit() -> None:
    config = compose()
    assert (config.model.name, config.model.size) == ("transformer", "small")
    assert config.train.max_epochs is not None


def test_values_win_over_the_file_and_assignments_over_values(file: Path) -> None:
    config = compose(
        file,
        {"model.layers": 2, "train.warmup": 2, "model.size": None},
        ["train.warmup=3", "data.train=[a, b]"],
    )
    assert config.train.seed == 1  # from the file
    assert config.model.model_dump()["layers"] == 2  # from the values
    assert config.train.warmup == 3  # from the assignment
    assert config.model.size == "tiny"  # a value of None is ignored
    assert config.data.train == ("a", "b")


def test_a_later_assignment_wins() -> None:
    assert compose(assignments=["train.seed=4", "train.seed = 5"]).train.seed == 5


def test_a_size_sets_many_fields_and_a_given_field_wins() -> None:
    sizes = [compose(values={"model.size": size}).model.model_dump() for size in ("tiny", "base")]
    assert sizes[0]["width"] < sizes[1]["width"]
    wide = compose(values={"model.size": "tiny", "model.width": 512}).model.model_dump()
    assert (wide["width"], wide["layers"]) == (512, sizes[0]["layers"])


def test_an_assignment_reaches_a_section_of_the_model() -> None:
    model = compose(assignments=["model.encoder.attention=window", "model.encoder.window=7"]).model.model_dump()
    assert (model["encoder"]["attention"], model["encoder"]["window"]) == ("window", 7)
    assert "did you mean model.encoder.window?" in error_message(assignments=["model.encoder.windwo=7"])


def test_a_preset_keeps_what_a_given_section_does_not_mention() -> None:
    model = compose(values={"model.name": "transformer-bigbird", "model.encoder.block": 8}).model.model_dump()
    assert (model["encoder"]["attention"], model["encoder"]["block"]) == ("bigbird", 8)


def test_an_option_of_another_model_is_unknown() -> None:
    assert "no option model.heads" in error_message(values={"model.name": "recurrent", "model.heads": 4})


@pytest.mark.parametrize("model", ["transformer", "recurrent", "lstm-additive-feed"])
def test_yaml_round_trip(model: str) -> None:
    values = {"model.name": model, "train.metrics": ["bleu"], "train.best_by": "bleu", "data.train": "ä.tsv"}
    config = compose(values=values)
    text = config.to_yaml()
    again = from_tree(yaml.safe_load(text), where="again")
    assert again == config
    assert again.to_yaml() == text
    assert "ä.tsv" in text
    assert set(yaml.safe_load(text)) == set(Config.model_fields)


def test_every_default_is_written_out() -> None:
    tree = yaml.safe_load(compose().to_yaml())
    config = compose()
    for name in Config.model_fields:
        assert set(tree[name]) == set(type(getattr(config, name)).model_fields), name


def test_an_empty_file_and_an_empty_section_are_the_defaults(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    assert compose(empty) == compose()
    empty.write_text("model:\ntrain:\n")
    assert compose(empty, {"train.seed": 3}) == compose(values={"train.seed": 3})


def test_messages_name_the_file_or_the_options(file: Path) -> None:
    file.write_text("train: {warmpu: 3}\n")
    told = error_message(file=file)
    assert f"There is no option train.warmpu (in {file})." in told
    assert "did you mean train.warmup?" in told
    assert "in the options" in error_message(values={"train.warmpu": 3})


@pytest.mark.parametrize(
    ("assignment", "fragments"),
    [
        ("train.warmup", ("--set 'train.warmup' is not of the form key=value", "e.g. --set")),
        ("train.metrics=[", ("--set 'train.metrics=['", "not valid YAML")),
        ("search.require=%s", ("not valid YAML", """--set 'search.require="..."'""")),
        ("optimizer.lr=1", ("There is no option optimizer",)),
        ("xyzzy.lr=1", ("There is no option xyzzy", "choose from data, text, model, train, search")),
        ("train=3", ("train in the options must be a section of options, got 3",)),
        ("train.seed.x=3", ("train.seed.x cannot be set", "seed is a value")),
        ("train.seed=-1", ("train.seed in the options", "greater than or equal to 0", "got -1")),
        ("train.schedule=cosinus", ("train.schedule", "'cosine'", "got 'cosinus'")),
        ("train.betas=[0.9]", ("train.betas",)),
        ("train.momentum=0.9", ("train.momentum=0.9", "train.optimizer=sgd")),
        ("model.name=gpt", ("There is no model called 'gpt'", "transformer")),
        ("model.size=huge", ("size must be one of tiny, small, base, got 'huge'",)),
        ("model.heads=7", ("model.heads=7 does not divide model.width=256",)),
        ("data.source=a", ("source and target must be given together",)),
        ("text.tags=['a b']", ("a tag must not be empty or contain spaces",)),
    ],
)
def test_a_wrong_assignment_is_an_error_message(assignment: str, fragments: tuple[str, ...]) -> None:
    base = {"train.seed": 1}
    told = error_message(values=base, assignments=[assignment])
    for fragment in fragments:
        assert fragment in told


@pytest.mark.parametrize(
    ("option", "words"),
    [("train.betas=[0.8,0.9]", "train.betas are options of adamw"), ("train.shard=true", "train.shard")],
)
def test_options_of_adamw_are_an_error_with_sgd(option: str, words: str) -> None:
    assert words in error_message(values={"train.optimizer": "sgd"}, assignments=[option])


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b"model: {name: [\n", "is not valid YAML"),
        (b"\xff\xfe", "is not valid YAML"),
        (b"- a\n- b\n", "must be a mapping with sections such as model:, got ['a', 'b']"),
        (b"model: transformer\n", "model in"),
        (b"a: !!python/object/apply:os.getcwd []\n", "is not valid YAML"),
    ],
)
def test_a_file_that_is_not_a_configuration(tmp_path: Path, content: bytes, fragment: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_bytes(content)
    told = error_message(file=file)
    assert fragment in told
    assert str(file) in told


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"nowhere\.yaml cannot be read: No such file"):
        read_yaml(tmp_path / "nowhere.yaml")


# Plain text


def test_a_language_model_reads_a_file_that_is_not_a_table_as_text() -> None:
    for file in ("text.txt", "train.en.gz", "text"):
        assert compose(None, {"model.name": "lm", "data.train": file}).data.format == "text"
    assert compose(None, {"model.name": "lm", "data.train": "pairs.tsv"}).data.format == "auto"
    assert compose(None, {"data.train": "text.txt"}).data.format == "auto"
    assert compose(None, {"data.train": "a.txt", "data.noise.kind": "infill"}).data.format == "text"


def test_a_masked_model_masks() -> None:
    config = compose(None, {"model.name": "mlm", "data.train": "text.txt", "data.noise.share": 0.3})
    assert (config.data.noise.kind, config.data.noise.share) == ("mask", 0.3)


# Trees


@pytest.mark.parametrize(
    "values",
    [
        {"data.train": "pairs.tsv", "data.heads_column": 3},
        {"data.train": "pairs.tsv", "data.heads_column": "heads", "data.valid": "valid.tsv"},
        {"data.source": "a.conllu.gz", "data.target": "b.txt"},
        {
            "data.source": "a.conllu",
            "data.target": "b",
            "data.valid_source": "c.conllu",
            "data.valid_target": "d",
        },
        {},  # e.g. for its cost
    ],
)
def test_data_with_trees(values: dict[str, Any]) -> None:
    assert compose(None, {"model.name": "transformer-syntax", **values}).model.reads_trees


@pytest.mark.parametrize(
    "values",
    [
        {"data.train": "pairs.tsv"},
        {"data.source": "a.txt", "data.target": "b.conllu"},
        {"data.source": "a.conllu", "data.target": "b", "data.valid_source": "c.txt", "data.valid_target": "d"},
        {"data.source": "a.conllu", "data.target": "b", "data.valid": "valid.tsv"},
        {"data.train": "a.txt", "data.noise.kind": "infill", "data.heads_column": 2},
    ],
)
def test_data_without_trees_for_a_model_that_reads_them(values: dict[str, Any]) -> None:
    told = error_message(values={"model.name": "transformer-syntax", **values})
    assert (
        "The model transformer-syntax needs the dependency tree of every source, but this data has none."
        in told
    )
    assert "data.heads_column" in told


def test_two_files_have_no_column_of_heads() -> None:
    told = error_message(values={"data.source": "a.txt", "data.target": "b.txt", "data.heads_column": "3"})
    assert "heads_column requires a table" in told


# Plain text that does not fit


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data.format": "text"}, "learns from pairs, but this data has no targets"),
        ({"data.target_column": "none"}, "learns from pairs, but this data has no targets"),
        (
            {"model.name": "mlm", "data.train": "pairs.tsv"},
            r"mlm with data\.noise\.kind=mask .* this data is pairs",
        ),
        ({"model.name": "mlm", "data.noise.kind": "infill"}, "cannot learn with data.noise.kind=infill"),
        ({"model.name": "lm", "text.joint": False}, "needs one tokenizer"),
        ({"model.name": "lm", "train.metrics": "bleu"}, "train.metrics needs translations"),
        ({"data.noise.random": 0.6, "data.noise.keep": 0.6}, "sum must be at most 1"),
    ],
)
def test_data_that_does_not_fit_the_model(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        compose(None, {"data.train": "text.txt", **values})


def test_composing_reads_no_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a data file is read")

    monkeypatch.setattr("seqloom.data.readers.read_shard", refuse)
    monkeypatch.setattr("seqloom.data.readers.corpora", refuse)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a.wav\tone\n")
    for train in (pairs, tmp_path / "missing.tsv", tmp_path / "missing" / "*.tsv"):
        assert compose(values={"data.train": str(train)}).text.kinds == ("unigram", "unigram")


def _numeric_options(section: str, kind: type[Settings]) -> Iterator[str]:
    """Yield the dotted names of the numeric options of a section and its subsections."""
    for name, info in kind.model_fields.items():
        if name in kind.sections():
            yield from _numeric_options(f"{section}.{name}", kind.sections()[name])
        elif {int, float} & {info.annotation, *get_args(info.annotation)}:
            yield f"{section}.{name}"


def _every_numeric_option() -> Iterator[tuple[str, str]]:
    """Yield (model, option); options that architectures share appear once."""
    shared = {"data": DataConfig, "text": TextConfig, "train": TrainConfig, "search": SearchConfig}
    for section, kind in shared.items():
        yield from (("transformer", option) for option in _numeric_options(section, kind))
    for kind, name in {entry.settings: name for name, entry in architectures().items()}.items():
        yield from ((name, option) for option in _numeric_options("model", kind))


ABSURD = [0, -1, 0.0, -1.0, 1e-320, 2**31, 2**63 - 1, 2**63, 10**20, -(10**20), 1e30, 1e31, 1e300, -1e300]


@pytest.mark.parametrize(("model", "option"), list(_every_numeric_option()))
def test_an_absurd_number_is_accepted_or_refused_by_name(model: str, option: str) -> None:
    errors = []
    for number in (*ABSURD, math.inf, -math.inf, math.nan):
        try:
            made = compose(values={"model.name": model, option: number})
        except SeqloomError as error:
            errors.append(error.message)
        else:
            assert from_tree(yaml.safe_load(made.to_yaml()), "itself") == made
    assert all(option.rpartition(".")[2] in message for message in errors)
    assert len(errors) >= 6  # not finite, or beyond 64 bits or single precision


@pytest.mark.parametrize(
    "option",
    [
        "search.beam=99999999999999999999",
        "search.beam=10001",
        "search.max_length_factor=1e300",
        "search.max_length_factor=1001",
        "search.longest=1000001",
        "train.threads=100000",
    ],
)
def test_a_value_that_would_take_all_memory_or_threads_is_refused(option: str) -> None:
    with pytest.raises(SeqloomError, match=option.partition("=")[0]):
        compose(assignments=[option])
