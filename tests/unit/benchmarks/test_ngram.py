"""The benchmark of n-grams: its data, its numbers and its picture, on a few lines."""

from __future__ import annotations

import gzip
import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest

from seqloom.errors import SeqloomError
from seqloom.types import UNK


@pytest.fixture
def ngram(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    files = {
        "multi30k/tokenised/train.lc.norm.tok.en.gz": "a dog runs\na cat runs\na dog\n",
        "multi30k/tokenised/val.lc.norm.tok.en.gz": "a cow runs\n",
        "tatoeba/eng-fra.tsv.gz": "Run!\tCours !\n",
        "tatoeba/eng-deu.tsv.gz": "Run!\tLauf!\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    return importlib.import_module("ngram")


def test_perplexity_by_order_is_drawn(ngram: ModuleType) -> None:
    words = ngram.captions(ngram.data_folder(os.environ))
    assert words.names[4:] == ["a", "dog", "runs", "cat"] and words.held_out == [[4, UNK, 6]]
    fits = [ngram.fit(words, order, prune) for prune in ngram.PRUNES for order in (1, 2)]
    assert [one.ngrams for one in fits] == [8, 15, 8, 15] and all(one.perplexity > 1 for one in fits)
    assert len(ngram.draw(fits).axes) == 2


def test_many_sentences_are_as_many_as_asked_for(ngram: ModuleType) -> None:
    rows, vocabulary = ngram.sample_sentences(ngram.data_folder(os.environ), 500)
    assert len(rows) == 500 and vocabulary == 9
    kinds = {tuple(row.tolist()) for row in rows}
    assert 5 < len(kinds) < 200 and {len(kind) for kind in kinds} == {1, 2, 3}
    found = ngram.large(ngram.data_folder(os.environ), 500, "0 0 1")
    assert found.tokens == sum(map(len, rows)) + 500 and found.peak_mb >= found.before_mb > 0


def test_missing_data_is_reported(ngram: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tatoeba" / "eng-fra.tsv.gz").unlink()
    with pytest.raises(SeqloomError, match=r"eng-fra\.tsv\.gz"):
        ngram.sample_sentences(ngram.data_folder(os.environ), 5)
