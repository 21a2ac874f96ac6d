"""The benchmark of hidden Markov models: a small race, its table, and the treebank that it reads."""

from __future__ import annotations

import gzip
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from seqloom.errors import SeqloomError

BLOCK = """# text = it's fine
1-2\tit's\t_\t_
1\tit\tit\tPRON
2\t's\tbe\tAUX
2.1\tso\tso\tADV
3\tfine\tfine\tADJ

"""


@pytest.fixture
def hmm() -> ModuleType:
    return importlib.import_module("hmm")


def test_both_find_the_same_likelihood(hmm: ModuleType) -> None:
    pytest.importorskip("hmmlearn")
    found = hmm.race(8, 1, 3, 2)
    assert found.difference < 1e-9 and set(found.ours) == {1, 2}
    assert found.line().startswith("| Gaussian, 3 features | ")
    assert found.line().count("|") == hmm.HEAD.splitlines()[0].count("|")


def test_words_and_tags_of_a_treebank(hmm: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "treebank").mkdir()
    with gzip.open(tmp_path / "treebank" / "pud-english.conllu.gz", "wt", encoding="utf-8") as file:
        file.write(BLOCK * 2)
    found = list(hmm.sentences({"SEQLOOM_DATA": str(tmp_path)}))
    assert found == [(["it", "'s", "fine"], ["PRON", "AUX", "ADJ"])] * 2


def test_a_missing_treebank(hmm: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"Treebank .*pud-english"):
        list(hmm.sentences({"SEQLOOM_DATA": str(tmp_path)}))
