"""Every Python function that takes a path accepts a string."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom.data.store import TokenStore
from seqloom.data.syntax import read_conllu
from seqloom.decode.select import load_translator
from seqloom.export.ctranslate2.export import export_ctranslate2, load_exported
from seqloom.run.config import compose
from seqloom.text.frames import FrameReader
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from support.configs import TINY_TRANSFORMER


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Path:
    """Folder with two tables and a run that was trained on both."""
    folder = tmp_path_factory.mktemp("paths")
    tables = [folder / "a.tsv", folder / "b.tsv"]
    for table in tables:
        table.write_text("".join(f"{i % 7} {i % 5} {table.stem}\t{i % 7}\n" for i in range(40)))
    settings = {**TINY_TRANSFORMER, "text.tokenizer": "char", "train.max_steps": 1, "train.threads": 1}
    seqloom.train(tables, valid=tables[0], out=str(folder / "run"), settings=settings, plan="fixed", quiet=True)
    return folder


def test_tables_may_be_paths_or_strings_one_or_several(folder: Path) -> None:
    tables = (folder / "a.tsv", folder / "b.tsv")
    names = tuple(map(str, tables))
    assert seqloom.Run.open(str(folder / "run")).config().data.train == names
    for value in (list(tables), tables, names):
        assert compose(values={"data.train": value}).data.train == names
    assert compose(values={"data.train": folder / "a.tsv"}).data.train == names[:1]
    config = str(folder / "run" / "config.yaml")
    assert compose(config).data.train == compose(Path(config)).data.train == names


def test_tokenizers_are_saved_and_loaded_by_strings(folder: Path, tmp_path: Path) -> None:
    pair = TokenizerPair.load(str(folder / "run" / "tokenizer"))
    pair.save(str(tmp_path / "pair"))
    again = Tokenizer.load(str(tmp_path / "pair"), "joint")
    again.save(str(tmp_path / "one"), "target")
    assert Tokenizer.load(tmp_path / "one", "target").fingerprint == pair.target.fingerprint
    np.save(tmp_path / "x.npy", np.ones((3, 2), dtype=np.float32))
    reader = FrameReader.train([str(tmp_path / "x.npy")], center="corpus", stack=1)
    reader.save(str(tmp_path / "frames"), "source")
    assert FrameReader.load(str(tmp_path / "frames"), "source").fingerprint == reader.fingerprint


def test_a_token_store_is_opened_by_a_string(folder: Path) -> None:
    from seqloom.data.corpus import Corpus

    run = seqloom.Run.open(folder / "run")
    config = run.config()
    store = Corpus(config.data, config.text).reopen(run.data_record(), run.tokenizers()).store
    assert len(TokenStore.open(str(store.folder))) == len(store)


def test_trees_are_read_by_a_path(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    file.write_text("1\tgo\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    assert list(read_conllu(file)) == list(read_conllu(str(file)))


def test_an_export_is_written_and_loaded_by_strings(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    export_ctranslate2(str(folder / "run"), str(tmp_path / "out"))
    expected = seqloom.load(str(folder / "run")).translate(["1 2"])[0][0].text
    assert load_exported(str(tmp_path / "out")).translate(["1 2"])[0][0].text == expected
    for place in (tmp_path / "out", folder / "run"):
        assert load_translator(str(place)).translate(["1 2"])[0][0].text == expected
