"""Options that follow from the content of the data files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from seqloom.errors import SeqloomError
from seqloom.run.config import compose, from_tree
from seqloom.run.data_settings import adapt_to_data
from seqloom.run.train import create


@pytest.fixture
def sequences(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("a.wav\tone\nb.wav\ttwo\n")
    return path


def test_feature_files_as_sources_are_read_as_frames(sequences: Path) -> None:
    plain = adapt_to_data(compose(values={"data.train": str(sequences)}))
    assert plain.text.kinds == ("frames", "unigram")
    spelled = adapt_to_data(compose(values={"data.train": str(sequences), "text.tokenizer": "char"}))
    assert spelled.text.kinds == ("frames", "char")
    assert from_tree(yaml.safe_load(spelled.to_yaml()), "a file") == adapt_to_data(spelled) == spelled


def test_text_stays_text(sequences: Path) -> None:
    sequences.write_text("a text\tone\n")
    config = compose(values={"data.train": str(sequences)})
    assert adapt_to_data(config) is config
    missing = compose(values={"data.train": str(sequences.with_name("missing.tsv"))})
    assert adapt_to_data(missing) is missing


@pytest.mark.parametrize("model", ["lm", "prefix-lm", "transformer-syntax"])
def test_a_model_that_reads_text_refuses_feature_files(sequences: Path, model: str, tmp_path: Path) -> None:
    sequences.write_text("a.wav\tone\t0\nb.wav\ttwo\t0\n")
    config = compose(values={"data.train": str(sequences), "model.name": model, "data.heads_column": "3"})
    for act in (adapt_to_data, lambda config: create(config, tmp_path / "run")):
        with pytest.raises(SeqloomError, match=f"{model} reads text, .* feature files"):
            act(config)
    assert list(tmp_path.iterdir()) == [sequences]
