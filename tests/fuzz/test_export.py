"""Damaged folders and files of other programs: a working run, or one error message and no run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.export.arpa import import_arpa
from seqloom.export.marian.export import export_marian
from seqloom.export.marian.load import import_marian
from seqloom.run.build import build_model
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.load import load_scorer
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import TrainState, weights_of
from support.configs import TINY_TRANSFORMER

ARPA = (
    "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-0.5\t</s>\n-99\t<s>\t-0.3\n-0.5\ta\t-0.2\n-1\t<unk>\n\n"
    "\\2-grams:\n-0.2\t<s> a\n-0.1\ta </s>\n\n\\end\\\n"
)
OPTIONS = {
    **TINY_TRANSFORMER,
    "model.name": "transformer-postnorm",
    "text.vocab_size": 280,
    "search.max_length_extra": 3,
}


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with random weights, as written by Hugging Face Transformers."""
    folder = tmp_path_factory.mktemp("marian")
    config = compose(values=OPTIONS)
    tokenizers = TokenizerPair.train(config.text, lambda: [("the cat sat", "die Katze")] * 3)
    model = build_model(config, tokenizers)
    torch.nn.init.normal_(model.output.bias)  # type: ignore[union-attr, arg-type]
    run = Run(folder / "run")
    run.folder.mkdir()
    run.config_file.write_text(config.to_yaml(), encoding="utf-8")
    tokenizers.save(run.tokenizer_folder)
    run.checkpoints().save(weights_of(model), {}, TrainState(best_step=0))
    export_marian(run.folder, folder / "marian", ["the cat"])
    return folder / "marian"


def imported(folder: Path, out: Path) -> None:
    """Import the folder; a failed import must leave no files."""
    try:
        import_marian(folder, out)
        load_scorer(out, device="cpu").score([("the cat", "die Katze")])
    finally:
        left = [path.name for path in out.parent.iterdir() if path.name.startswith(".")]
        shutil.rmtree(out, ignore_errors=True)
        assert left == []


FILES = ("config.json", "generation_config.json", "vocab.json", "tokenizer_config.json", "source.spm")


@pytest.mark.parametrize("file", [*FILES, "model.safetensors"])
def test_damaged_marian_folders(file: str, marian: Path, tmp_path: Path, fuzz: Any, damage: Any) -> None:
    folder = Path(shutil.copytree(marian, tmp_path / "marian"))
    imported(folder, tmp_path / "run")

    def check(content: bytes) -> None:
        (folder / file).unlink()
        (folder / file).write_bytes(content)
        imported(folder, tmp_path / "run")

    fuzz(damage((marian / file).read_bytes()), check, cost=5)


@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "vocab.json"])
def test_marian_records_of_another_shape(
    file: str, marian: Path, tmp_path: Path, fuzz: Any, reshape: Any
) -> None:
    folder = Path(shutil.copytree(marian, tmp_path / "marian"))

    def check(value: Any) -> None:
        (folder / file).write_text(json.dumps(value))
        imported(folder, tmp_path / "run")

    fuzz(reshape(json.loads((marian / file).read_text())), check, cost=5)


def test_damaged_arpa_files(tmp_path: Path, fuzz: Any, damage: Any) -> None:
    def check(content: bytes) -> None:
        (tmp_path / "a.arpa").write_bytes(content)
        try:
            import_arpa(tmp_path / "a.arpa", tmp_path / "run")
            load_scorer(tmp_path / "run", device="cpu").score([("", "a a")])
        finally:
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
            assert [path.name for path in tmp_path.iterdir()] == ["a.arpa"]

    check(ARPA.encode())
    fuzz(damage(ARPA.encode()), check, cost=5)
